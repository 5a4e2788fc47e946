import { connect } from "node:net";
import { createInterface } from "node:readline";
import { isFileError } from "@svc/runtime/durable-file";

/** A connection to Caddy's module, on which each side says lines. */
export interface ModuleLink {
  /** One of the sides, or something in between, has ended it. */
  isClosed(): boolean;
  say(line: string): void;
  /** The next line that it says. Rejects when the connection fails or ends before. */
  answer(): Promise<string>;
  close(): void;
}

/** Connects; null when nobody listens. Once `signal` has aborted nobody waits for the outcome, and nothing of it stays open. */
export type OpenModule = (signal: AbortSignal) => Promise<ModuleLink | null>;

/** The module that listens at `path`, if there is one. */
export const moduleAt =
  (path: string): OpenModule =>
  (signal) =>
    new Promise((resolve, reject) => {
      const socket = connect(path);
      const stop = (): void => void socket.destroy();
      signal.addEventListener("abort", stop, { once: true });
      const closed = (): Error => new Error("caddy's module closed the connection");
      const onClose = (): void => reject(closed());
      socket.once("close", onClose).once("error", (error) => {
        if (isFileError(error, "ENOENT", "ECONNREFUSED")) resolve(null);
        else reject(error);
      });
      socket.once("connect", () => {
        signal.removeEventListener("abort", stop);
        socket.off("close", onClose);
        const lines = createInterface({ input: socket });
        // Whoever waits for an answer hears of it; nobody else has to. Lines tell of it once more.
        for (const each of [socket, lines]) each.on("error", () => {});
        resolve({
          isClosed: () => socket.destroyed,
          say: (line) => void socket.write(`${line}\n`),
          answer() {
            const { promise, resolve, reject } = Promise.withResolvers<string>();
            const onEnd = (): void => reject(closed());
            socket.once("error", reject).once("close", onEnd);
            lines.once("line", resolve);
            return promise.finally(() => socket.off("error", reject).off("close", onEnd));
          },
          close: stop,
        });
      });
    });
