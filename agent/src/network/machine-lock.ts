import { createServer, type Server } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";

const waitMs = 60_000;
const usualLookMs = 50;

/**
 * Does `work` while no other process of this machine does work under the same name. A name that is listened on is the
 * lock: it belongs to the network whose rules are written, and the kernel gives it back however a process ends.
 */
export async function withMachineLock<T>(clock: Clock, name: string, work: () => Promise<T>): Promise<T> {
  const endsAtMs = clock.steadyMs() + waitMs;
  for (;;) {
    const held = await listen(`\0${name}`);
    if (held !== null) {
      try {
        return await work();
      } finally {
        await new Promise((resolve) => held.close(resolve));
      }
    }
    if (clock.steadyMs() > endsAtMs) throw new Error(`another program holds ${name}`);
    await sleep(clock, usualLookMs);
  }
}

/** Null when somebody listens already. */
function listen(path: string): Promise<Server | null> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(null);
      else reject(error);
    });
    server.listen(path, () => resolve(server));
  });
}
