import { Duplex } from "node:stream";
import { createFrameReader, endFrame, frameOf } from "../frames.ts";

/** The one pipe to the parent, as connections that follow one another. */
export interface Lines {
  /** The next connection's bytes. */
  open(): Duplex;
  /** Ends it, and resolves once the parent has ended it as well: whatever comes then is of the next one. */
  close(): Promise<void>;
}

export function createLines(pipe: Duplex): Lines {
  let line: Duplex | null = null;
  let parentEnded = Promise.withResolvers<void>();

  const read = createFrameReader({
    bytes(chunk) {
      // Of a connection that is over nothing is wanted any more.
      if (line !== null && !line.destroyed && !line.push(chunk)) pipe.pause();
    },
    end() {
      if (line !== null && !line.destroyed) line.push(null);
      parentEnded.resolve();
    },
  });
  pipe.on("data", read);

  return {
    open() {
      parentEnded = Promise.withResolvers();
      line = new Duplex({
        read: () => void pipe.resume(),
        write(chunk: Buffer, _, done) {
          const [header, payload] = frameOf(chunk);
          if (payload === undefined) return done();
          pipe.write(header);
          pipe.write(payload, done);
        },
      });
      return line;
    },
    async close() {
      line?.on("error", () => {});
      line?.destroy();
      line = null;
      pipe.resume();
      pipe.write(endFrame);
      await parentEnded.promise;
    },
  };
}
