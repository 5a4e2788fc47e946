import type { WatchResponse } from "@svc/proto/etcd";
import { every } from "@svc/runtime/clock";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import { type Etcd, readRange } from "./client.ts";
import { type Connection, grpcCodeOf, requireLeader } from "./connection.ts";
import { type Entry, textOf, type WatchEvent } from "./entry.ts";
import { failureOf } from "./errors.ts";
import { type KeyRange, underPrefix } from "./key-range.ts";
import { onNewStream, type Resume, resumeAfter, type Step, stepResume } from "./resume.ts";

/** Who is told. Callbacks are synchronous; after `signal` aborts none is called. */
export interface WatchConsumer {
  /** Everything under the prefix as of `revision`: first of all, and again whenever changes may have been missed. */
  onSnapshot(entries: readonly Entry[], revision: bigint): void;
  /** Changes in order, each once; the changes of one revision (one transaction) come together. `revision` is the last one's. */
  onEvents(events: readonly WatchEvent[], revision: bigint): void;
  readonly signal: AbortSignal;
}

/** Failures in a row that are worth a warning: with the back-off below, some two seconds. */
const outageFailures = 6;
const reopenBackOff = { firstMs: 50, maxMs: 1_000 };

interface Ended {
  readonly resume: Resume | null;
  readonly why: string;
  readonly progressed: boolean;
}

/**
 * One watch stream from `resume` until it ends. It asks for a sign of life when it has heard nothing for a
 * third of the allowed silence, and gives up after all of it.
 */
function streamWatch(
  connection: Connection,
  range: KeyRange,
  from: Resume,
  consumer: WatchConsumer,
  heard: { heardAtMs: number },
): Promise<Ended> {
  const { clock, timings } = connection;
  const { watchSilenceMs } = timings;
  const member = connection.member();
  const call = member.watch.watch(requireLeader);
  return new Promise((resolve) => {
    let resume = onNewStream(from);
    let progressed = false;
    let silentMs = 0;
    let ended = false;

    const end = (why: string, next: Resume | null = resume, memberFault = false) => {
      if (ended) return;
      ended = true;
      checking[Symbol.dispose]();
      consumer.signal.removeEventListener("abort", stop);
      call.cancel();
      if (memberFault) connection.moveOn(member);
      resolve({ resume: next, why, progressed });
    };
    const stop = () => end("stopped");
    const checking = every(clock, watchSilenceMs / 3, () => {
      silentMs += watchSilenceMs / 3;
      if (silentMs >= watchSilenceMs) end(`silent for ${watchSilenceMs} ms`, resume, true);
      else call.write({ requestUnion: { case: "progressRequest", value: {} } });
    });

    call.on("data", (response: WatchResponse) => {
      if (ended) return;
      silentMs = 0;
      heard.heardAtMs = clock.steadyMs();
      const step: Step = stepResume(resume, response);
      if (step.do === "relist") return end(step.why, null);
      if (step.do === "reopen") return end(step.why);
      resume = step.resume;
      progressed ||= !response.created;
      if (step.events.length === 0) return;
      try {
        consumer.onEvents(step.events, resume.nextRevision - 1n);
      } catch (error) {
        connection.log.error({ err: error }, "a consumer of etcd changes failed; it gets a new snapshot");
        // Not progress: a consumer that always fails must not make this loop spin.
        progressed = false;
        end("the consumer failed", null);
      }
    });
    call.on("error", (error) => end(error.message, resume, failureOf(grpcCodeOf(error)).memberFault));
    call.on("end", () => end("the server ended the stream", resume, true));

    consumer.signal.addEventListener("abort", stop, { once: true });
    if (consumer.signal.aborted) return stop();
    const { key, rangeEnd } = range;
    call.write({
      requestUnion: {
        case: "createRequest",
        value: { key, rangeEnd, startRevision: resume.nextRevision, progressNotify: true, fragment: true },
      },
    });
  });
}

/** `listWatch` of any range of keys. */
export async function watchRange(connection: Connection, range: KeyRange, given: WatchConsumer): Promise<void> {
  const { clock, random, log, closed } = connection;
  const signal = AbortSignal.any([given.signal, closed]);
  const consumer: WatchConsumer = {
    onSnapshot: (entries, revision) => given.onSnapshot(entries, revision),
    onEvents: (events, revision) => given.onEvents(events, revision),
    signal,
  };
  const heard = { heardAtMs: clock.steadyMs() };
  connection.watches.add(heard);
  using _ = { [Symbol.dispose]: () => connection.watches.delete(heard) };
  let resume: Resume | null = null;
  let failures = 0;
  while (!signal.aborted) {
    let why: string;
    try {
      if (resume === null) {
        const { entries, revision, clusterId } = await readRange(connection, range, signal);
        heard.heardAtMs = clock.steadyMs();
        if (signal.aborted) return;
        consumer.onSnapshot(entries, revision);
        resume = resumeAfter(revision, clusterId);
      }
      const ended: Ended = await streamWatch(connection, range, resume, consumer, heard);
      resume = ended.resume;
      why = ended.why;
      if (ended.progressed) failures = 0;
    } catch (error) {
      why = error instanceof Error ? error.message : String(error);
    }
    if (signal.aborted) return;
    failures += 1;
    connection.observer?.watchEnded();
    // The first failure and the one that shows an outage are told; in between and after that it is only noise.
    const level = failures === 1 ? "info" : failures === outageFailures ? "warn" : "debug";
    const relist = resume === null;
    log[level]({ range: textOf(range.key), why, relist, failures }, "etcd watch starts again");
    await pause(clock, backOffMs(failures, reopenBackOff, random.next()), signal);
  }
}

/**
 * Lists `prefix` at revision R and watches from R+1, for ever: over cut connections, silent servers, restarts
 * and failing members no change is lost or delivered twice. When the history no longer reaches back
 * (compaction, restore) the consumer gets a snapshot instead.
 *
 * @returns when `signal` aborts or the client is closed. Never rejects: a consumer that throws is logged and
 * gets a new snapshot.
 */
export const listWatch = (etcd: Etcd, prefix: string, consumer: WatchConsumer): Promise<void> =>
  watchRange(etcd.connection, underPrefix(prefix), consumer);
