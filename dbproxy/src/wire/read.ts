import type { Socket } from "node:net";

/**
 * The next `count` bytes of a socket that nobody else reads; what is behind them stays in it. Null when it ended, or `signal`
 * aborted, before they were there.
 */
export function readBytes(socket: Socket, count: number, signal: AbortSignal): Promise<Buffer | null> {
  if (count === 0) return Promise.resolve(Buffer.alloc(0));
  return untilReadable(socket, signal, () => {
    const bytes = socket.read(count) as Buffer | null;
    if (bytes === null) return "more";
    // At its end a socket gives what is left, however little.
    return bytes.length === count ? bytes : null;
  });
}

/** Whether the socket says anything at all before `signal` aborts. What it says stays in it. */
export const speaks = async (socket: Socket, signal: AbortSignal): Promise<boolean> =>
  (await untilReadable(socket, signal, () => {
    if (socket.readableLength > 0) return true;
    socket.read(0);
    return "more";
  })) === true;

/** What `take` gives as soon as it is not "more"; null when no more will come. */
function untilReadable<T>(socket: Socket, signal: AbortSignal, take: () => T | "more" | null): Promise<T | null> {
  return new Promise((resolve) => {
    const settle = (value: T | null): void => {
      for (const event of endings) socket.off(event, end);
      socket.off("readable", look);
      signal.removeEventListener("abort", end);
      resolve(value);
    };
    const look = (): void => {
      const taken = take();
      if (taken !== "more") settle(taken);
    };
    const end = (): void => settle(null);
    if (signal.aborted || socket.destroyed || socket.readableEnded) return resolve(null);
    for (const event of endings) socket.on(event, end);
    signal.addEventListener("abort", end, { once: true });
    socket.on("readable", look);
    look();
  });
}

const endings = ["end", "close", "error"] as const;
