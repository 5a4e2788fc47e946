import type { Socket } from "node:net";

/** How often a connection that says nothing is asked whether it is still there. */
export const keepAliveMs = 60_000;

/**
 * Passes on what each of two sockets says, at the pace of whoever is slower, and when one has said all, that. Settles when both
 * are closed. Of each direction a socket's buffers are held, 64 KiB each, and no more. One that breaks takes the other along. Both must allow being half open, and must have listeners of errors.
 */
export async function splice(a: Socket, b: Socket): Promise<void> {
  for (const socket of [a, b]) {
    socket.setNoDelay(true);
    socket.setKeepAlive(true, keepAliveMs);
  }
  const closed = Promise.all([closing(a, b), closing(b, a)]);
  a.pipe(b);
  b.pipe(a);
  await closed;
}

/** Settles when `socket` is closed, and closes `other` unless the two have said goodbye. */
const closing = (socket: Socket, other: Socket): Promise<void> =>
  new Promise((resolve) => {
    const close = (): void => {
      if (!socket.readableEnded || !socket.writableFinished) other.destroy();
      resolve();
    };
    if (socket.closed || socket.destroyed) close();
    else socket.once("close", close);
  });

/** Says a last thing to a client and lets it go: at once when it leaves, and in any case with `signal`. */
export function dismiss(socket: Socket, lastWords: Buffer | null, signal: AbortSignal): void {
  if (socket.destroyed) return;
  signal.addEventListener("abort", () => socket.destroy(), { once: true });
  // What it still says is read: with bytes unread the connection would be reset, and the last words lost.
  socket.once("end", () => socket.destroySoon());
  socket.resume();
  if (lastWords === null) socket.end();
  else socket.end(lastWords);
}
