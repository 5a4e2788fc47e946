import { connect } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";

/** Of this machine. A server may listen on one of them alone: Vite does on the second. */
const ownAddresses = ["127.0.0.1", "::1"] as const;
const ownMs = 1000;
const lookMs = 200;
const portsTried = 20;

/** Whether somebody takes connections at `host:port`. Dialling it is all that is done. */
export function answers(clock: Clock, host: string, port: number, withinMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const done = (found: boolean) => {
      timer[Symbol.dispose]();
      socket.destroy();
      resolve(found);
    };
    const timer = clock.after(withinMs, () => done(false));
    socket.once("connect", () => done(true)).once("error", () => done(false));
  });
}

/** Whether a port of this machine is in use. */
export async function isHeld(clock: Clock, port: number): Promise<boolean> {
  const found = await Promise.all(ownAddresses.map((host) => answers(clock, host, port, ownMs)));
  return found.includes(true);
}

/** The first port from `port` on that nobody uses; null when there is none near it. */
export async function freePort(clock: Clock, port: number): Promise<number | null> {
  for (let each = port; each < Math.min(port + portsTried, 65_536); each++)
    if (!(await isHeld(clock, each))) return each;
  return null;
}

/** Waits until somebody answers at a port of this machine. Rejects with the reason of `signal`. */
export async function untilHeld(clock: Clock, port: number, signal: AbortSignal): Promise<void> {
  while (!(await isHeld(clock, port))) await sleep(clock, lookMs, signal);
  signal.throwIfAborted();
}
