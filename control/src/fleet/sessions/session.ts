import type { MessageInitShape } from "@bufbuild/protobuf";
import type { DaemonRole } from "@svc/proto/daemon-identity";
import type { RegistryAccessSchema } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { type RetryOptions, retry } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import type { TokenBucket, TokenBuckets } from "@svc/runtime/token-bucket";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Etcd, Op } from "../../stores/etcd/index.ts";
import type { Authority } from "../ca/authority.ts";
import { keys } from "../cluster/keys.ts";
import type { DaemonCall } from "./call.ts";
import { LinkError } from "./errors.ts";
import type { LeafCheck } from "./leaf-check.ts";
import { admit, IdentityFenced, IdentityQuarantined, nameOfPeer, type Peer } from "./peer.ts";
import type { LiveSession, Roster } from "./roster.ts";
import type { SessionRows } from "./rows.ts";
import { type SessionKey, SessionLost, takeSessionKey } from "./session-key.ts";
import { IdentityCloned } from "./session-state.ts";
import { createStream, type Ending, type Farewells, type Stream } from "./stream.ts";
import { grantedForMs, type LinkTimings } from "./timings.ts";

/** What is counted of streams. */
export type LinkMetrics = Pick<
  Metrics,
  | "sessions"
  | "sessionsOpened"
  | "sessionsEnded"
  | "renewals"
  | "assignmentSeconds"
  | "statusTransactions"
  | "statusOperations"
  | "statusConflicts"
>;

/** What every session needs, of agents and of routers. */
export interface SessionDeps {
  rows: SessionRows;
  etcd: Etcd;
  authority: Pick<Authority, "clusterId" | "epoch">;
  serverId: string;
  registry: MessageInitShape<typeof RegistryAccessSchema>;
  roster: Roster;
  leaves: Pick<LeafCheck, "require">;
  /** Of each identity, in front of that of all: nobody uses that up alone. */
  ownHellos: TokenBuckets;
  hellos: TokenBucket;
  timings: LinkTimings;
  log: Log;
  clock: Clock;
  random: Random;
  /** Aborts when this replica stops. */
  stopping: AbortSignal;
  /** Whether other replicas are the ones to go to, since etcd answers them and not this one. */
  isCutOff: () => boolean;
  metrics?: LinkMetrics;
}

/** A stream whose holder is known and may speak. */
export interface Visitor<Req, Res> {
  stream: Stream<Req, Res>;
  identity: Peer;
}

const crowdedReconnectMs = 4_000;
/** Their leases run on meanwhile. */
const cutOffSpreadMs = 2_000;
/** Only a new identity heals that, so there is no hurry. */
const quarantinedReconnectMs = 60_000;

/**
 * Runs one stream: who is it, may it, then `body`. Whatever goes wrong ends the stream with the words
 * that fit, and never more than the stream.
 */
export async function receiveStream<Req, Res>(
  call: DaemonCall<Req, Res>,
  { role, farewells, deps }: { role: DaemonRole; farewells: Farewells<Res>; deps: SessionDeps },
  body: (visitor: Visitor<Req, Res>) => Promise<void>,
): Promise<void> {
  const { rows, authority, timings, log, clock, random } = deps;
  const stream = createStream<Req, Res>(call, { timings, farewells, clock });
  let identity: Peer | null = null;
  try {
    if (deps.stopping.aborted) return stream.close(goAway(0, "stopping"));
    if (deps.isCutOff()) return stream.close(cutOffEnding(random));
    identity = call.identify({ clusterId: authority.clusterId, role, now: clock.now() });
    const nowMs = clock.bootMs();
    const isCrowded = !deps.ownHellos.take(nameOfPeer(identity), nowMs) || !deps.hellos.take(nowMs);
    if (isCrowded) return stream.close(goAway(random.next() * crowdedReconnectMs, "too many at once"));
    await deps.leaves.require(identity.certificate.leaf);
    await admit(rows, identity);
    await body({ stream, identity });
  } catch (error) {
    endWith(stream, error, deps);
  } finally {
    stream.close({ why: "ended" });
    deps.metrics?.sessionsEnded.inc({ role, why: (stream.signal.reason as Ending).why });
    log.info({ daemon: identity?.id, role, ...describe(stream.signal.reason as Ending) }, "stream ended");
  }
}

/** When to come back after something went wrong that ends by itself. */
export const soonMs = (random: Random): number => Math.round(500 + random.next() * 1_500);

/** For a stream of a replica that etcd does not answer: another one is to be asked, and not by all daemons at once. */
export const cutOffEnding = (random: Random): Ending =>
  goAway(random.next() * cutOffSpreadMs, "etcd answers other replicas and not this one");

const goAway = (reconnectAfterMs: number, reason: string): Ending => ({
  why: "go away",
  reconnectAfterMs: Math.round(reconnectAfterMs),
  reason,
});

/** Ends the stream because of an error. After its end a stream fails in all sorts of ways: that is passed over. */
function endWith(
  stream: Pick<Stream<unknown, unknown>, "close" | "signal">,
  error: unknown,
  { log, random }: Pick<SessionDeps, "log" | "random">,
): void {
  if (stream.signal.aborted) return;
  const ending = endingOf(error, random);
  if (ending.why === "go away") log.warn({ err: error }, "a session failed");
  stream.close(ending);
}

function endingOf(error: unknown, random: Random): Ending {
  if (error instanceof IdentityFenced) return { why: "fenced", reason: error.message };
  if (error instanceof SessionLost) return { why: "superseded" };
  if (error instanceof IdentityCloned || error instanceof IdentityQuarantined)
    return goAway(quarantinedReconnectMs, error.message);
  if (error instanceof LinkError) return { why: "refused", error };
  return goAway(soonMs(random), "control cannot serve the stream now");
}

function describe(ending: Ending): { why: string; reason?: string } {
  if (ending.why === "go away" || ending.why === "fenced") return { why: ending.why, reason: ending.reason };
  return ending.why === "refused" ? { why: ending.why, reason: ending.error.message } : { why: ending.why };
}

export interface SessionClaimOptions {
  key: string;
  /** The value to write first, over the one that is there; it must name this stream and no other. */
  valueAfter: (before: string | null) => string;
  isMine: (value: string) => boolean;
  /** The value from the end of the stream to the end of the lease; absent: the key goes with the stream. */
  detached?: () => string;
  /** Called about once a second with how long ago the last renewal came. */
  noteSilence?: (key: SessionKey, silentMs: number) => void;
  also?: readonly Op[];
  queryLog: LiveSession["queryLog"];
  openTunnel: LiveSession["openTunnel"];
  tidy: LiveSession["tidy"];
  askToRenew: LiveSession["askToRenew"];
}

/**
 * Takes the session key, holds it while `body` runs, and lets go of it after. The lease counts from here on.
 * `body` ends when the stream has ended; when it fails first, the stream ends.
 */
export async function holdSession<Req, Res>(
  { stream, identity }: Visitor<Req, Res>,
  deps: SessionDeps,
  {
    key: at,
    valueAfter,
    isMine,
    detached,
    noteSilence,
    also,
    queryLog,
    openTunnel,
    tidy,
    askToRenew,
  }: SessionClaimOptions,
  body: (key: SessionKey) => Promise<void>,
): Promise<void> {
  const { signal } = stream;
  const { stopping } = deps;
  // What was told of its clock was told by an earlier session.
  const first = [...(also ?? []), { delete: { key: keys.clock(identity.id) } }];
  const key = await takeSessionKey(deps, {
    key: at,
    valueAfter,
    also: first,
    signal,
    stopping,
    forgetAfterMs: grantedForMs(deps.timings.leaseTtlMs),
  });
  // As soon as the stream ends, and not when the last write has been given up: the daemon must not count as connected.
  const released = untilAborted(signal).then(() => letGo(stream, key, deps, detached));
  const session: LiveSession = {
    identity,
    key,
    isMine,
    close: stream.close,
    check(nowMs) {
      stream.checkStuck(nowMs);
      if (!signal.aborted && stream.renewedAtMs !== null) noteSilence?.(key, nowMs - stream.renewedAtMs);
    },
    get renewedAtMs() {
      return stream.renewedAtMs;
    },
    queryLog,
    openTunnel,
    tidy,
    askToRenew,
  };
  try {
    using _ = deps.roster.enter(session);
    using _counted = countSession(deps.metrics, identity.role);
    stream.renew();
    deps.log.info({ daemon: identity.id, role: identity.role, epoch: String(key.epoch) }, "session opened");
    await body(key);
  } catch (error) {
    // Before the wait below: the key is let go of when the stream ends.
    endWith(stream, error, deps);
    throw error;
  } finally {
    stream.close({ why: "ended" });
    await released;
  }
}

/**
 * Lets go of a session key after its stream. While the lease runs the key says that the daemon may be back at any
 * moment: an absent one means that the lease is over. A replica that stops leaves the keys of nodes as they are; that
 * it is gone says the same, and what was counted here would be lost anyway.
 */
async function letGo(
  { signal, renewedAtMs }: Pick<Stream<unknown, unknown>, "signal" | "renewedAtMs">,
  key: SessionKey,
  { stopping, timings, clock, log }: SessionDeps,
  detached: (() => string) | undefined,
): Promise<void> {
  const { why } = signal.reason as Ending;
  if (detached === undefined || why === "expired" || why === "fenced") return key.release(stopping);
  if (stopping.aborted) return;
  try {
    await key.update(detached());
  } catch (error) {
    // Another stream has it, or the store does not answer: then the key goes when it does.
    if (error instanceof SessionLost) return;
    log.warn({ err: error }, "the end of a stream was not recorded yet");
  }
  const nowMs = clock.bootMs();
  await pause(clock, Math.max((renewedAtMs ?? nowMs) + grantedForMs(timings.leaseTtlMs) - nowMs, 0), stopping);
  if (!stopping.aborted) await key.release(stopping);
}

function countSession(metrics: LinkMetrics | undefined, role: DaemonRole): Disposable {
  metrics?.sessionsOpened.inc({ role });
  metrics?.sessions.inc({ role });
  return { [Symbol.dispose]: () => metrics?.sessions.dec({ role }) };
}

/** Resolves when the signal aborts. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  signal.aborted
    ? Promise.resolve()
    : new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

const retryBackOff = { firstMs: 200, maxMs: 5_000 };

export interface PersistOptions extends Pick<SessionDeps, "clock" | "random" | "log"> {
  signal: AbortSignal;
  /** The step, for the log. */
  what: string;
}

/** Tries until it works; null when the signal aborts first. For steps without which a session cannot go on. */
export async function persist<T>(
  step: () => Promise<T>,
  { clock, random, signal, log, what }: PersistOptions,
): Promise<T | null> {
  const options: RetryOptions = {
    ...{ clock, random, signal, backOff: retryBackOff },
    mayHelp: (error) => !(error instanceof SessionLost),
    onFailure: (err, failures) => log.warn({ err, what, failures }, "a step of a session failed and is repeated"),
  };
  try {
    return await retry(options, step);
  } catch (error) {
    if (error instanceof SessionLost || !signal.aborted) throw error;
    return null;
  }
}
