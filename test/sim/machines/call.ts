import type { DaemonCall } from "@svc/control/fleet/sessions/call";
import { LinkError } from "@svc/control/fleet/sessions/errors";
import type { Peer } from "@svc/control/fleet/sessions/peer";
import type { DaemonIdentity, DaemonRole } from "@svc/proto/daemon-identity";
import type { Connection, Message } from "./connection.ts";

/** A daemon as its certificate names it, which nobody in this world can forge or lose. */
export type Named = Pick<DaemonIdentity, "role" | "id" | "incarnation">;

/** Told of what control hears and says in one call. */
export interface CallWitness {
  heard(message: Message): void;
  sent(message: Message): void;
}

interface Enveloped {
  message: { case?: string | undefined; value?: unknown };
}

/** One daemon's call as a replica of control has it: what grpc-js and TLS are in the real world. */
export class VirtualCall<Req extends Enveloped, Res extends Partial<Enveloped>> implements DaemonCall<Req, Res> {
  private on: Parameters<DaemonCall<Req, Res>["listen"]>[0] | null = null;
  private isPaused = true;
  private readonly waiting: Req[] = [];

  private readonly connection: Connection;
  private readonly named: Named;
  private readonly witness: CallWitness;

  constructor(connection: Connection, named: Named, witness: CallWitness) {
    this.connection = connection;
    this.named = named;
    this.witness = witness;
  }

  identify({ clusterId, role }: { clusterId: string; role: DaemonRole }): Peer {
    if (role !== this.named.role) throw new LinkError("UNAUTHENTICATED", `not a ${role} of this cluster`);
    const leaf = { fingerprint256: "", raw: new Uint8Array() };
    return { clusterId, ...this.named, certificate: { endsAt: endOfTime, trust: null, leaf } };
  }

  address = (): string => this.named.id;

  listen(on: { message(message: Req): void; ended(): void }): void {
    this.on = on;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    // Not before whoever resumes has done what it does now.
    void Promise.resolve().then(() => this.pass());
  }

  private pass(): void {
    while (!this.isPaused) {
      const next = this.waiting.shift();
      if (next === undefined) return;
      this.witness.heard(next.message as Message);
      this.on?.message(next);
    }
  }

  /** Called for what comes over the connection. */
  receive(message: Message): void {
    this.waiting.push({ message } as Req);
    this.pass();
  }

  /** Called when the daemon, or something on the way, has ended it. */
  closed(): void {
    this.on?.ended();
  }

  write({ message }: Res, taken: () => void): void {
    if (message?.case === undefined) return;
    const told = { case: message.case, value: message.value };
    this.witness.sent(told);
    this.connection.send("back", told, taken);
  }

  end(): void {
    this.connection.close(this.connection.server);
  }
}

const endOfTime = new Date(8_640_000_000_000_000);
