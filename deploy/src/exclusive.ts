import { createHash } from "node:crypto";
import { createServer } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";

const retryMs = 200;

/** Somebody else holds what was asked for. */
export class Held extends Error {
  override readonly name = "Held";
}

function claim(address: string): Promise<AsyncDisposable> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen(address, () => {
      server.unref();
      resolve({ [Symbol.asyncDispose]: () => new Promise((done) => server.close(() => done())) });
    });
  });
}

/**
 * Holds `name` for this process until disposed; at most one process of the machine has it.
 * A socket in Linux' abstract namespace is used, because the kernel frees it with the process:
 * a lock file would have to be recognised as stale after a crash.
 * Waits up to `waitMs` for another holder, then throws `Held`.
 */
export async function holdExclusively(clock: Clock, name: string, waitMs: number): Promise<AsyncDisposable> {
  const address = `\0svc-${createHash("sha256").update(name).digest("hex").slice(0, 40)}`;
  const untilMs = clock.steadyMs() + waitMs;
  for (;;) {
    try {
      return await claim(address);
    } catch (error) {
      const busy = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
      if (!busy) throw error;
      if (clock.steadyMs() >= untilMs) throw new Held(`another process holds ${name}`, { cause: error });
    }
    await sleep(clock, retryMs);
  }
}
