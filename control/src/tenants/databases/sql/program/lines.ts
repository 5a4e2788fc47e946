import { Duplex } from "node:stream";
import { createFrameReader, endFrame, frameOf } from "../frames.ts";

/** The one pipe to the parent, as connections that follow one another. */
export interface Lines {
  /** The present connection, from its first byte: a server may speak before anybody has asked for it. */
  open(): Duplex;
  /** Ends it, and resolves once the parent has ended it as well: whatever comes then is of the next one. */
  close(): Promise<void>;
}

interface Line {
  stream: Duplex;
  /** By this side. */
  isClosed: boolean;
  /** By the parent. */
  isEnded: boolean;
  over: PromiseWithResolvers<void>;
}

export function createLines(pipe: Duplex): Lines {
  let line = newLine(pipe);

  /** Once both sides have ended it, the next one begins at once: its first bytes may be in hand already. */
  function follow(): void {
    const { isClosed, isEnded, over } = line;
    if (!isClosed || !isEnded) return;
    line = newLine(pipe);
    over.resolve();
  }

  const read = createFrameReader({
    bytes(chunk) {
      // Of a connection that is over nothing is wanted any more.
      if (!line.stream.destroyed && !line.stream.push(chunk)) pipe.pause();
    },
    end() {
      line.isEnded = true;
      if (!line.stream.destroyed) line.stream.push(null);
      follow();
    },
  });
  pipe.on("data", read);

  return {
    open: () => line.stream,
    async close() {
      const { stream, over } = line;
      line.isClosed = true;
      stream.destroy();
      pipe.resume();
      pipe.write(endFrame);
      follow();
      await over.promise;
    },
  };
}

const newLine = (pipe: Duplex): Line => ({
  stream: new Duplex({
    // As a socket: a driver hears of its end by its close.
    allowHalfOpen: false,
    read: () => void pipe.resume(),
    write(chunk: Buffer, _, done) {
      // An empty frame would be the end.
      if (chunk.length > 0) for (const part of frameOf(chunk)) pipe.write(part);
      if (pipe.writableNeedDrain) pipe.once("drain", done);
      else done();
    },
  }).on("error", () => {}),
  isClosed: false,
  isEnded: false,
  over: Promise.withResolvers(),
});
