import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { RegistryAccessSchema } from "@svc/proto/node";
import type { Authority } from "../ca/authority.ts";
import type { DaemonIdentity, DaemonRole } from "../ca/identity.ts";
import type { Db } from "../db/pool.ts";
import { backOffMs } from "../etcd/back-off.ts";
import { pause } from "../etcd/clock.ts";
import type { Etcd, Op } from "../etcd/index.ts";
import type { Log } from "../log.ts";
import { LinkError } from "./errors.ts";
import { admit, IdentityFenced, peerIdentity } from "./peer.ts";
import type { LiveSession, Roster } from "./roster.ts";
import { type SessionKey, SessionLost, takeSessionKey } from "./session-key.ts";
import { createStream, type Ending, type Farewells, type Stream } from "./stream.ts";
import type { LinkTimings } from "./timings.ts";
import type { TokenBucket } from "./token-bucket.ts";

/** What every session needs, of agents and of routers. */
export interface SessionDeps {
  db: Db;
  etcd: Etcd;
  authority: Authority;
  serverId: string;
  registry: MessageInitShape<typeof RegistryAccessSchema>;
  roster: Roster;
  hellos: TokenBucket;
  timings: LinkTimings;
  log: Log;
  now: () => Date;
  /** A clock that does not go back. */
  nowMs: () => number;
  /** Aborts when this replica stops. */
  stopping: AbortSignal;
}

/** A stream whose holder is known and may speak. */
export interface Visitor<Req, Res> {
  stream: Stream<Req, Res>;
  identity: DaemonIdentity;
}

const crowdedReconnectMs = 4_000;

/**
 * Runs one stream: who is it, may it, then `body`. Whatever goes wrong ends the stream with the words
 * that fit, and never more than the stream.
 */
export async function receiveStream<Req, Res>(
  call: ServerDuplexStream<Req, Res>,
  { role, farewells, deps }: { role: DaemonRole; farewells: Farewells<Res>; deps: SessionDeps },
  body: (visitor: Visitor<Req, Res>) => Promise<void>,
): Promise<void> {
  const { db, authority, timings, log, now, nowMs } = deps;
  const stream = createStream<Req, Res>(call, { timings, farewells, nowMs });
  let identity: DaemonIdentity | null = null;
  try {
    if (deps.stopping.aborted) return stream.close(goAway(0, "stopping"));
    identity = peerIdentity(call, { clusterId: authority.clusterId, role, now: now() });
    if (!deps.hellos.take(nowMs())) return stream.close(goAway(Math.random() * crowdedReconnectMs, "too many at once"));
    await admit(db, identity);
    await body({ stream, identity });
  } catch (error) {
    endWith(stream, error, log);
  } finally {
    stream.close({ why: "ended" });
    log.info({ daemon: identity?.id, role, ...describe(stream.signal.reason as Ending) }, "stream ended");
  }
}

const goAway = (reconnectAfterMs: number, reason: string): Ending => ({
  why: "go away",
  reconnectAfterMs: Math.round(reconnectAfterMs),
  reason,
});

/** Ends the stream because of an error. After its end a stream fails in all sorts of ways: that is passed over. */
function endWith(stream: Pick<Stream<unknown, unknown>, "close" | "signal">, error: unknown, log: Log): void {
  if (stream.signal.aborted) return;
  const ending = endingOf(error);
  if (ending.why === "go away") log.warn({ err: error }, "a session failed");
  stream.close(ending);
}

function endingOf(error: unknown): Ending {
  if (error instanceof IdentityFenced) return { why: "fenced", reason: error.message };
  if (error instanceof SessionLost) return { why: "superseded" };
  if (error instanceof LinkError) return { why: "refused", error };
  return goAway(500 + Math.random() * 1_500, "control cannot serve the stream now");
}

function describe(ending: Ending): { why: string; reason?: string } {
  if (ending.why === "go away" || ending.why === "fenced") return { why: ending.why, reason: ending.reason };
  return ending.why === "refused" ? { why: ending.why, reason: ending.error.message } : { why: ending.why };
}

export interface SessionClaimOptions {
  key: string;
  /** The value to write first; it must name this stream and no other. */
  value: string;
  isMine: (value: string) => boolean;
  also?: readonly Op[];
  queryLog: LiveSession["queryLog"];
  tidy: LiveSession["tidy"];
}

/**
 * Takes the session key, holds it while `body` runs, and lets go of it after. The lease counts from here on.
 * `body` ends when the stream has ended; when it fails first, the stream ends.
 */
export async function holdSession<Req, Res>(
  { stream, identity }: Visitor<Req, Res>,
  deps: SessionDeps,
  { key: at, value, isMine, also, queryLog, tidy }: SessionClaimOptions,
  body: (key: SessionKey) => Promise<void>,
): Promise<void> {
  const { signal } = stream;
  const { stopping } = deps;
  const key = await takeSessionKey(deps.etcd, { key: at, value, ...(also && { also }), signal, stopping });
  // As soon as the stream ends, and not when the last write has been given up: the daemon must not count as connected.
  const released = untilAborted(signal).then(() => key.release(stopping));
  const session: LiveSession = {
    identity,
    key,
    isMine,
    close: stream.close,
    checkStuck: stream.checkStuck,
    get renewedAtMs() {
      return stream.renewedAtMs;
    },
    queryLog,
    tidy,
  };
  try {
    using _ = deps.roster.enter(session);
    stream.renew();
    deps.log.info({ daemon: identity.id, role: identity.role, epoch: String(key.epoch) }, "session opened");
    await body(key);
  } catch (error) {
    // Before the wait below: the key is let go of when the stream ends.
    endWith(stream, error, deps.log);
    throw error;
  } finally {
    stream.close({ why: "ended" });
    await released;
  }
}

/** Resolves when the signal aborts. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  signal.aborted
    ? Promise.resolve()
    : new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

const retryBackOff = { firstMs: 200, maxMs: 5_000 };

/** Tries until it works; null when the signal aborts first. For steps without which a session cannot go on. */
export async function persist<T>(
  step: () => Promise<T>,
  { signal, log, what }: { signal: AbortSignal; log: Log; what: string },
): Promise<T | null> {
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      return await step();
    } catch (error) {
      if (error instanceof SessionLost) throw error;
      log.warn({ err: error, what, failures }, "a step of a session failed and is repeated");
      await pause(backOffMs(failures, retryBackOff, Math.random()), signal);
    }
  }
  return null;
}
