import { once } from "node:events";
import { connect } from "node:net";

/** A client that writes its own HTTP, so that it can write badly, slowly, or not at all. */
export interface RawConnection extends Disposable {
  write(bytes: string | Uint8Array): void;
  /** All that came back so far. */
  answer(): string;
  /** Resolves when the server has closed the connection; with how. Rejects when it does not within `timeoutMs`. */
  closed(timeoutMs?: number): Promise<"ended" | "reset">;
  isClosed(): boolean;
}

const closeTimeoutMs = 10_000;

export async function rawConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  // A bare Promise.race would leave the socket open; whoever asks disposes of it.
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let answer = "";
  let how: "ended" | "reset" | null = null;
  const done = Promise.withResolvers<"ended" | "reset">();
  const end = (value: "ended" | "reset") => {
    how ??= value;
    socket.destroy();
    done.resolve(how);
  };
  socket.on("data", (chunk) => {
    answer += String(chunk);
  });
  socket.on("end", () => end("ended")).on("error", () => end("reset"));
  await once(socket, "connect");
  return {
    write: (bytes) => void socket.write(bytes),
    answer: () => answer,
    isClosed: () => how !== null,
    closed(timeoutMs = closeTimeoutMs) {
      const late = Promise.withResolvers<never>();
      const timer = setTimeout(() => late.reject(new Error(`still open after ${timeoutMs} ms`)), timeoutMs);
      return Promise.race([done.promise, late.promise]).finally(() => clearTimeout(timer));
    },
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

/** Sends `bytes` and reads until the server closes the connection. */
export async function sendRaw(url: string, bytes: string | Uint8Array): Promise<string> {
  using connection = await rawConnection(url);
  connection.write(bytes);
  await connection.closed();
  return connection.answer();
}

/** A request as text; lines end as they must. */
export const rawRequest = (line: string, headers: readonly string[], body = ""): string =>
  [line, ...headers, "", body].join("\r\n");

/** Status lines of all answers on a connection. */
export const statusesOf = (answer: string): number[] =>
  [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
