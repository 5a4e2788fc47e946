import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Machine } from "../node/machine.ts";
import { explainListeners, parseListeners } from "./listening.ts";
import { type Probe, probePauseMs } from "./probe.ts";

const probeTimeoutMs = 5_000;

/** What is looked at: a container that was just started. */
export interface Subject {
  /** host:port it is published on. */
  upstream: string;
  path: string;
  /** Where it is to listen, inside. */
  port: number;
  /** Null when it is not known. */
  pid: number | null;
  startedMs: number;
  untilMs: number;
}

/**
 * GETs the health path, once at least, until it answers well or the time is up. Null when it did, else why it never did;
 * null also when the signal aborts.
 */
export async function proveHealthy(
  clock: Clock,
  machine: Pick<Machine, "probe" | "tcpTables">,
  subject: Subject,
  signal: AbortSignal,
): Promise<string | null> {
  const { upstream, path, port, pid, startedMs, untilMs } = subject;
  // Whole for each look, however little time is left: one that is cut short tells of the clock, not of the app.
  const timeoutMs = Math.min(probeTimeoutMs, untilMs - startedMs);
  let found: Probe;
  do {
    found = await machine.probe(upstream, path, timeoutMs, signal);
    if (found.healthy || signal.aborted) return null;
    const nowMs = clock.now().getTime();
    await pause(clock, Math.min(probePauseMs(nowMs - startedMs), Math.max(0, untilMs - nowMs)), signal);
    if (signal.aborted) return null;
  } while (clock.now().getTime() < untilMs);
  const tables = pid === null ? null : await machine.tcpTables(pid);
  const explained = tables === null ? null : explainListeners(tables.flatMap(parseListeners), port);
  const seconds = Math.round((untilMs - startedMs) / 1000);
  const { seen, hint } = found;
  return `The app did not answer ${path} with a success within ${seconds} s: ${seen}. ${explained ?? hint}`.trim();
}
