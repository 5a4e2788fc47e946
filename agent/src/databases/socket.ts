import { createConnection, type Socket } from "node:net";

/**
 * A connection to the server behind a Unix socket, with its errors left to the caller. Rejects when nobody listens, or when
 * the signal aborts first; afterwards the signal has no hold on it.
 */
export function connectServer(socketPath: string, signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  if (signal.aborted) return Promise.reject(signal.reason);
  const socket = createConnection(socketPath);
  const stop = (): void => {
    socket.destroy();
    reject(signal.reason);
  };
  signal.addEventListener("abort", stop, { once: true });
  socket.once("error", reject);
  socket.once("connect", () => {
    signal.removeEventListener("abort", stop);
    socket.removeListener("error", reject);
    resolve(socket);
  });
  return promise.finally(() => signal.removeEventListener("abort", stop));
}
