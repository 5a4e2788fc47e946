import { create } from "@bufbuild/protobuf";
import type { RunAnswer } from "@svc/control/fleet/agents/run-steps";
import { keys, type RunValue } from "@svc/control/fleet/cluster/keys";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { RunOfferSchema, type RunStatus } from "@svc/proto/node";
import { backOffMs } from "@svc/runtime/retry";
import { pause, type Work, wait } from "../../kernel/kernel.ts";
import { createQueue } from "../../kernel/queue.ts";
import { DatabaseError } from "../../stores/postgres.ts";
import { imageOf } from "./images.ts";
import type { ServerStream } from "./session.ts";
import { retryBackOff } from "./session.ts";
import { type SessionKey, SessionLost } from "./session-key.ts";

/** From an agent's acceptance of a run to its start: as `control/src/fleet/agents/node-session.ts` has it. */
export const startWithinMs = 30_000;
const conflictAttempts = 10;
const announceAttempts = 5;
const announceAgainMs = 5_000;

/** Carries runs to the agent, and what it says of them back: mirrors `control/src/fleet/agents/run-courier.ts`. */
export class RunCourier {
  private readonly queue: ReturnType<typeof createQueue>;
  private readonly said = new Map<string, string>();

  private readonly stream: ServerStream;
  private readonly key: SessionKey;
  private readonly nodeId: string;
  private readonly bootId: string;

  constructor(stream: ServerStream, key: SessionKey, nodeId: string, bootId: string) {
    this.stream = stream;
    this.key = key;
    this.nodeId = nodeId;
    this.bootId = bootId;
    this.queue = createQueue(stream.scope);
  }

  private *read(attemptId: string): Work<{ run: RunValue; modRevision: bigint } | null> {
    const { client, world } = this.stream.replica;
    const entry = yield* client.get(keys.run(this.nodeId, attemptId));
    return entry === null ? null : { run: world.values.of<RunValue>(entry.value), modRevision: entry.modRevision };
  }

  private *say(attemptId: string): Work {
    const { cores } = this.stream.replica.world;
    const found = yield* this.read(attemptId);
    const message = found === null ? null : cores.runMessage(found.run, this.bootId);
    if (found === null || message === null) return void this.said.delete(attemptId);
    if (this.said.get(attemptId) === message) return;
    if (message === "cancel") this.stream.send("runCancel", { attemptId });
    else if (message === "grant") {
      this.stream.send("runGrant", { attemptId, token: found.run.token ?? "", startWithinMs });
    } else {
      const { ownerId: deploymentId, projectId } = found.run;
      // What is to run is loaded from Postgres.
      yield* this.stream.replica.transact(() => null);
      this.stream.send(
        "runOffer",
        create(RunOfferSchema, {
          ...{ attemptId, deploymentId, projectId, channel: "production", timeoutSeconds: 30 },
          ...{ ownerKind: "deployment", ownerId: deploymentId, kind: "release", command: "migrate" },
          image: { reference: imageOf(projectId, deploymentId) },
        }),
      );
    }
    this.said.set(attemptId, message);
  }

  private *answer(attemptId: string, decide: (run: RunValue | null) => RunAnswer): Work {
    const { world } = this.stream.replica;
    for (let attempt = 1; attempt <= conflictAttempts; attempt += 1) {
      const found = yield* this.read(attemptId);
      const { write, ack } = decide(found?.run ?? null);
      if (write !== null && found !== null) {
        const at = keys.run(this.nodeId, attemptId);
        const { succeeded } = yield* this.key.write(
          [{ put: { key: at, value: world.values.textOf(write) } }],
          [{ key: at, compare: "modRevision", value: found.modRevision }],
        );
        if (!succeeded) continue;
      }
      if (ack) {
        this.said.delete(attemptId);
        this.stream.send("runAck", { attemptId });
      }
      return;
    }
    throw new EtcdError("REFUSED", `run ${attemptId} keeps changing under its courier`);
  }

  private enqueue(what: "announce" | "answer", step: () => Work): void {
    const { scope, replica } = this.stream;
    const { random } = replica.process;
    const again = () => this.enqueue(what, step);
    const attempts = what === "announce" ? announceAttempts : Number.POSITIVE_INFINITY;
    const persistent = function* (): Work {
      for (let failures = 1; failures <= attempts; failures += 1) {
        try {
          return yield* step();
        } catch (error) {
          const isTrouble =
            error instanceof EtcdError || error instanceof UnknownOutcome || error instanceof DatabaseError;
          if (!isTrouble) throw error;
          yield* wait(pause(backOffMs(failures, retryBackOff, random.next())));
        }
      }
      // Nobody else would say it again; until then the others have their turn.
      scope.after(announceAgainMs, "announce again", again);
    };
    this.queue(persistent)(
      () => {},
      (error) => {
        if (!(error instanceof SessionLost)) throw error;
        this.stream.close({ why: "go away", reconnectAfterMs: 1_000, reason: "runs cannot be recorded" });
      },
      scope,
    );
  }

  announce(): void {
    const { fleet, world } = this.stream.replica;
    const under = keys.runs(this.nodeId);
    const own = new Map<string, RunValue>();
    for (const [at, { value }] of fleet.runs.values) if (at.startsWith(under)) own.set(value.attemptId, value);
    for (const attemptId of this.said.keys()) if (!own.has(attemptId)) this.said.delete(attemptId);
    for (const [attemptId, run] of own) {
      const message = world.cores.runMessage(run, this.bootId);
      if (message !== null && this.said.get(attemptId) !== message) this.enqueue("announce", () => this.say(attemptId));
    }
  }

  accepted(attemptId: string, refusedBecause: string): void {
    const { world, process } = this.stream.replica;
    this.enqueue("answer", () =>
      this.answer(attemptId, (run) => world.cores.acceptRun(run, refusedBecause, process.now(), this.bootId)),
    );
  }

  reported(status: RunStatus): void {
    const { world, process } = this.stream.replica;
    this.enqueue("answer", () =>
      this.answer(status.attemptId, (run) => world.cores.recordRun(run, status, process.now(), this.bootId)),
    );
  }
}
