import { setTimeout as delay } from "node:timers/promises";
import { explainListeners, parseListeners } from "./listening.ts";
import { type Probe, probe, probePauseMs } from "./probe.ts";
import { tcpTablesOf } from "./sockets.ts";

const PROBE_TIMEOUT_MS = 5_000;

/** What is looked at: a container that was just started. */
export type Subject = {
  /** host:port it is published on. */
  upstream: string;
  path: string;
  /** Where it is to listen, inside. */
  port: number;
  /** Null when it is not known. */
  pid: number | null;
  startedMs: number;
  untilMs: number;
};

/**
 * GETs the health path, once at least, until it answers well or the time is up. Null when it did, else why it never did;
 * null also when the signal aborts.
 */
export async function proveHealthy(subject: Subject, signal: AbortSignal): Promise<string | null> {
  const { upstream, path, port, pid, startedMs, untilMs } = subject;
  // Whole for each look, however little time is left: one that is cut short tells of the clock, not of the app.
  const timeoutMs = Math.min(PROBE_TIMEOUT_MS, untilMs - startedMs);
  let found: Probe;
  do {
    found = await probe(upstream, path, timeoutMs, signal);
    if (found.healthy || signal.aborted) return null;
    const pauseMs = Math.min(probePauseMs(Date.now() - startedMs), Math.max(0, untilMs - Date.now()));
    await delay(pauseMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return null;
  } while (Date.now() < untilMs);
  const tables = pid === null ? null : await tcpTablesOf(pid);
  const explained = tables === null ? null : explainListeners(tables.flatMap(parseListeners), port);
  const seconds = Math.round((untilMs - startedMs) / 1000);
  const { seen, hint } = found;
  return `The app did not answer ${path} with a success within ${seconds} s: ${seen}. ${explained ?? hint}`.trim();
}
