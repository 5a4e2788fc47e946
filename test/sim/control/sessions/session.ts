import { prefix } from "@svc/control/fleet/cluster/keys";
import { defaultTimings, grantedForMs } from "@svc/control/fleet/sessions/timings";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { backOffMs } from "@svc/runtime/retry";
import { pause, type Scope, type Timer, type Work, wait } from "../../kernel/kernel.ts";
import type { Connection, Message } from "../../machines/connection.ts";
import { DatabaseError } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";
import { type SessionKey, SessionLost } from "./session-key.ts";

export type Ending =
  | { why: "superseded" }
  | { why: "fenced" }
  | { why: "go away"; reconnectAfterMs: number; reason: string }
  | { why: "expired" | "ended" | "refused" };

const timings = defaultTimings;

/** One daemon's stream as control has it: mirrors `control/src/fleet/daemons/{stream,session}.ts`. */
export class ServerStream {
  /** What runs for the stream ends with it. */
  readonly scope: Scope;
  ending: Ending | null = null;
  renewedAtMs: number | null = null;
  private lease: Timer | null = null;
  private handler: ((message: Message) => void) | null = null;
  private readonly early: Message[] = [];
  onOver: (ending: Ending) => void = () => {};

  readonly replica: Replica;
  readonly connection: Connection;

  constructor(replica: Replica, connection: Connection) {
    this.replica = replica;
    this.connection = connection;
    this.scope = replica.scope.child();
  }

  /** Called for what the daemon sends. */
  receive(message: Message): void {
    if (this.ending !== null) return;
    if (this.handler === null) this.early.push(message);
    else this.handler(message);
  }

  handle(handler: (message: Message) => void): void {
    this.handler = handler;
    for (const message of this.early.splice(0)) if (this.ending === null) handler(message);
  }

  send(kind: string, value: unknown): void {
    if (this.ending === null) this.connection.send("back", { case: kind, value });
  }

  renew(): void {
    if (this.ending !== null) return;
    this.renewedAtMs = this.replica.process.monoMs();
    this.lease?.cancel();
    this.lease = this.scope.after(grantedForMs(timings.leaseTtlMs), "session expiry", () =>
      this.close({ why: "expired" }),
    );
  }

  close(ending: Ending): void {
    if (this.ending !== null) return;
    if (ending.why === "superseded") this.send("superseded", {});
    else if (ending.why === "fenced") this.send("fenced", {});
    else if (ending.why === "go away") this.send("goAway", { reconnectAfterMs: ending.reconnectAfterMs });
    this.ending = ending;
    this.lease?.cancel();
    this.scope.end();
    this.connection.close(this.connection.server);
    this.onOver(ending);
  }
}

/** Ends a stream because of an error; anything unexpected is ours. */
export function endWith(stream: ServerStream, error: unknown): void {
  if (error instanceof SessionLost) {
    stream.close({ why: "superseded" });
    return;
  }
  if (error instanceof EtcdError || error instanceof UnknownOutcome || error instanceof DatabaseError) {
    const reconnectAfterMs = 500 + stream.replica.process.random.next() * 1_500;
    stream.close({ why: "go away", reconnectAfterMs, reason: String(error) });
    return;
  }
  throw error;
}

/**
 * Opens a session with the first message, which has to be a hello and to come soon. What comes while it opens waits until
 * `flush` is called.
 */
export function expectHello<Hello>(
  stream: ServerStream,
  open: (stream: ServerStream, hello: Hello, flush: () => void) => Work,
): void {
  const helloTimer = stream.scope.after(timings.helloTimeoutMs, "hello timeout", () =>
    stream.close({ why: "refused" }),
  );
  let isGreeted = false;
  stream.handle((message) => {
    if (isGreeted || message.case !== "hello") return;
    isGreeted = true;
    helloTimer.cancel();
    const waiting: Message[] = [];
    stream.handle((next) => void waiting.push(next));
    stream.scope.spawn(
      open(stream, message.value as Hello, () => {
        for (const each of waiting.splice(0)) stream.receive(each);
      }),
      (error) => endWith(stream, error),
    );
  });
}

/** Between attempts at what a session has to do. */
export const retryBackOff = { firstMs: 200, maxMs: 5_000 };

/** Tries until it works, while the stream lasts. */
export function* persist<T>(stream: ServerStream, step: () => Work<T>): Work<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return yield* step();
    } catch (error) {
      if (!(error instanceof EtcdError || error instanceof UnknownOutcome || error instanceof DatabaseError))
        throw error;
      const { random } = stream.replica.process;
      yield* wait(pause(backOffMs(failures, retryBackOff, random.next())));
    }
  }
}

/** A daemon whose stream this replica holds. */
export interface LiveSession {
  daemonId: string;
  incarnation: number;
  key: SessionKey;
  stream: ServerStream;
  /** Whether a value of the session key is one that this stream wrote. */
  isMine(value: unknown): boolean;
  noteSilence(silentMs: number): void;
}

/**
 * Holds a session key while its stream lasts, and lets go of it after: while the lease runs, a detached key says that
 * the daemon may be back.
 */
export function hold(session: LiveSession, detached: () => string): void {
  const { stream, key, daemonId } = session;
  const { replica } = stream;
  replica.roster.get(daemonId)?.stream.close({ why: "superseded" });
  replica.roster.set(daemonId, session);
  replica.world.checks.onSessionOpen(daemonId, key.epoch);
  stream.onOver = (ending) => {
    if (replica.roster.get(daemonId) === session) replica.roster.delete(daemonId);
    replica.scope.spawn(letGo(session, ending, detached));
  };
  if (stream.ending !== null) stream.onOver(stream.ending);
  stream.renew();
}

function* letGo({ key, stream }: LiveSession, { why }: Ending, detached: () => string): Work {
  if (why === "expired" || why === "fenced") return yield* key.release();
  const { process } = stream.replica;
  try {
    yield* key.update(detached());
  } catch (error) {
    if (error instanceof SessionLost) return;
    if (!(error instanceof EtcdError || error instanceof UnknownOutcome)) throw error;
  }
  const leftMs = (stream.renewedAtMs ?? process.monoMs()) + grantedForMs(timings.leaseTtlMs) - process.monoMs();
  yield* wait(pause(Math.max(leftMs, 0)));
  yield* key.release();
}

/** Ends the sessions of this replica whose key another stream took, or somebody deleted. */
export function endLostSessions(replica: Replica): void {
  for (const [view, under] of [
    [replica.fleet.nodes, prefix.nodes],
    [replica.fleet.edges, prefix.edges],
  ] as const) {
    view.subscribe((changes, revision) => {
      for (const change of changes) {
        const [id = "", part] = change.key.slice(under.length).split("/");
        const session = replica.roster.get(id);
        if (part !== "session" || session === undefined) continue;
        if (change.type === "put") {
          if (change.value.modRevision > session.key.epoch && !session.isMine(change.value.value)) {
            session.stream.close({ why: "superseded" });
          }
        } else if (
          revision > session.key.epoch &&
          !changes.some((later) => later.key === change.key && later.type === "put")
        ) {
          session.stream.close({ why: "go away", reconnectAfterMs: 0, reason: "the session key was deleted" });
        }
      }
    });
  }
}
