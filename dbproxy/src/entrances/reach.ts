import { connect, type Socket } from "node:net";
import type { EntranceTarget } from "@svc/proto/entrances";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { connected } from "../doors/connected.ts";

const againMs = 50;

/**
 * A connection to an app; null when `signal` aborts first. One that refuses is tried again: it may be just being started anew,
 * and an edge that has its connection does not send a second time what may change something.
 */
export async function reachApp(clock: Clock, to: EntranceTarget, signal: AbortSignal): Promise<Socket | null> {
  while (!signal.aborted) {
    const app = connect({ ...to, allowHalfOpen: true });
    if (await connected(app, "connect", signal)) return app;
    await pause(clock, againMs, signal);
  }
  return null;
}
