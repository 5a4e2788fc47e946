import { setTimeout as delay } from "node:timers/promises";
import { explainListeners, parseListeners } from "./listening.ts";
import { type Probe, probe, probePauseMs } from "./probe.ts";
import { tcpTablesOf } from "./sockets.ts";

const PROBE_TIMEOUT_MS = 5_000;
/** An answer that was waited for no longer than this says less than one before it. */
const SHORT_MS = 1_000;

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

/** GETs the health path until it answers well. Null then, else why it never did; null also when the signal aborts. */
export async function proveHealthy(subject: Subject, signal: AbortSignal): Promise<string | null> {
  const { upstream, path, port, pid, startedMs, untilMs } = subject;
  let last: Probe | null = null;
  for (;;) {
    const leftMs = untilMs - Date.now();
    if (leftMs <= 0) break;
    const timeoutMs = Math.min(PROBE_TIMEOUT_MS, leftMs);
    const found = await probe(upstream, path, timeoutMs, signal);
    if (found.healthy || signal.aborted) return null;
    if (last === null || !found.late || timeoutMs > SHORT_MS) last = found;
    const pauseMs = Math.min(probePauseMs(Date.now() - startedMs), Math.max(0, untilMs - Date.now()));
    await delay(pauseMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return null;
  }
  const tables = pid === null ? null : await tcpTablesOf(pid);
  const explained = tables === null ? null : explainListeners(tables.flatMap(parseListeners), port);
  const seconds = Math.round((untilMs - startedMs) / 1000);
  const seen = last?.seen ?? "nothing answered";
  const hint = explained ?? last?.hint ?? "";
  return `The app did not answer ${path} with a success within ${seconds} s: ${seen}. ${hint}`.trim();
}
