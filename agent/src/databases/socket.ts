import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";

/** Opens what a name stands for without the right to read it. Node has no name for it. */
const pathOnly = 0o10000000;

/**
 * A connection to the server behind a Unix socket, with its errors left to the caller. The server may put into its directory
 * what it likes, so a link to somebody else's socket is not followed. Rejects when nobody listens, or when the signal
 * aborts first; afterwards the signal has no hold on it.
 */
export async function connectServer(socketPath: string, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted();
  await using file = await open(socketPath, pathOnly | constants.O_NOFOLLOW);
  if (!(await file.stat()).isSocket()) throw new Error("There is no socket of a server.");
  // By what was looked at, and not by its name, which may stand for something else by now.
  return await connect(`/proc/self/fd/${file.fd}`, signal);
}

function connect(path: string, signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = createConnection(path);
  const stop = (): void => {
    socket.destroy();
    reject(signal.reason);
  };
  signal.addEventListener("abort", stop, { once: true });
  socket.once("error", reject);
  socket.once("connect", () => {
    socket.removeListener("error", reject);
    resolve(socket);
  });
  return promise.finally(() => signal.removeEventListener("abort", stop));
}
