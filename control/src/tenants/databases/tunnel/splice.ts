import type { Duplex } from "node:stream";
import { clip } from "@svc/proto";
import { type Clock, every } from "@svc/runtime/clock";
import type { WebSocket } from "ws";

const closed = { ended: 1000, notBytes: 1003, broke: 1011 } as const;
/** Of an end that is not the client's own wish, by what the WebSocket says of it. */
const clientWords: Readonly<Record<number, string>> = { 1001: "control stops", 1006: "the client is gone" };
/** What a client has not taken yet, from which on the server is not read. */
const bufferedBytesMax = 1024 * 1024;

/** What the protocol lets one say with the end of a WebSocket. */
const reasonBytesMax = 123;

/** What passed, and how it ended. */
export interface Spliced {
  /** From the client, and to it. */
  bytesIn: number;
  bytesOut: number;
  why: string;
}

/**
 * Carries bytes between a client and a server until either ends, and says why to the other one and to whoever asked. Each side is
 * read no faster than the other one takes.
 *
 * @param options.messageBytesMax of one message, either way
 * @param options.idleMs after which a tunnel on which nothing passed is ended
 */
export function splice(
  webSocket: WebSocket,
  line: Duplex,
  { clock, messageBytesMax, idleMs }: { clock: Clock; messageBytesMax: number; idleMs: number },
): Promise<Spliced> {
  const { promise, resolve } = Promise.withResolvers<Spliced>();
  let [bytesIn, bytesOut] = [0, 0];
  let lastMs = clock.steadyMs();
  const end = (code: number, why: string) => {
    webSocket.close(code, clip(why, reasonBytesMax));
    line.destroy();
    resolve({ bytesIn, bytesOut, why });
  };
  const watch = every(clock, idleMs / 2, () => {
    if (clock.steadyMs() - lastMs >= idleMs) end(closed.ended, "nothing was said for long");
  });
  void promise.then(() => watch[Symbol.dispose]());

  webSocket.on("message", (data: Buffer, isBinary) => {
    if (!isBinary) return end(closed.notBytes, "only binary messages are taken");
    lastMs = clock.steadyMs();
    bytesIn += data.length;
    if (line.destroyed || line.writableEnded || line.write(data)) return;
    webSocket.pause();
    line.once("drain", () => webSocket.resume());
  });
  webSocket.once("error", ({ message }) => end(closed.broke, `the client sent what is not taken: ${message}`));
  webSocket.once("close", (code) => end(closed.ended, clientWords[code] ?? "the client ended it"));

  line.on("data", (chunk: Buffer) => {
    lastMs = clock.steadyMs();
    bytesOut += chunk.length;
    const sent = () => {
      if (webSocket.bufferedAmount <= bufferedBytesMax) line.resume();
    };
    for (let at = 0; at < chunk.length; at += messageBytesMax) {
      webSocket.send(chunk.subarray(at, at + messageBytesMax), { binary: true }, sent);
    }
    if (webSocket.bufferedAmount > bufferedBytesMax) line.pause();
  });
  line.once("end", () => end(closed.ended, "the server ended it"));
  // Whoever ends it may have said why, such as that its node is out.
  const broke = () =>
    end(closed.broke, ["the way to the database broke", line.errored?.message].filter(Boolean).join(": "));
  for (const event of ["error", "close"]) line.once(event, broke);
  // It may have ended before anybody listened.
  if (line.destroyed) broke();
  webSocket.resume();
  return promise;
}
