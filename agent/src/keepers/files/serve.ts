import { Duplex } from "node:stream";
import { type CopyPart, type CopyRequest, copyFilesMax, copyRequest, copyRequestBytesMax, partGone } from "@svc/proto";
import { listCopy, readPart, writePart } from "./directory.ts";

/** The directory of a copy's volume on this machine. */
export interface CopyDirectory {
  /** Throws when there is none. */
  find(): Promise<string>;
  /** Makes the volume if there is none. Throws while anybody keeps or reads the copy. */
  make(): Promise<string>;
}

/** The files of a copy, as control speaks to them: one request and its answer (proto/src/copy-files.ts). */
export const serveCopyFiles = (directory: CopyDirectory): Duplex =>
  Duplex.from((asked: AsyncIterable<Uint8Array>) => answer(asked, directory));

async function* answer(asked: AsyncIterable<Uint8Array>, directory: CopyDirectory): AsyncGenerator<Buffer> {
  const source = createSource(asked);
  const request = copyRequest.parse(JSON.parse((await source.line(copyRequestBytesMax)).toString("utf8")));
  yield* answerTo(request, source, directory);
}

async function* answerTo(request: CopyRequest, source: Source, directory: CopyDirectory): AsyncGenerator<Buffer> {
  switch (request.do) {
    case "list": {
      const listing = await listCopy(await directory.find());
      if (listing.files.length > copyFilesMax) throw new Error(`the copy has ${listing.files.length} files`);
      yield Buffer.from(JSON.stringify(listing));
      return;
    }
    case "read": {
      const root = await directory.find();
      for (const part of request.parts) yield* framed(await readPart(root, part));
      return;
    }
    case "write": {
      const root = await directory.make();
      for (const part of request.parts) await writePart(root, part, await source.take(part.length));
      yield Buffer.from(JSON.stringify({ ok: true }));
    }
  }
}

function* framed(content: Buffer | null): Generator<Buffer> {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content === null ? partGone : content.length);
  yield length;
  if (content !== null && content.length > 0) yield content;
}

interface Source {
  /** Up to a line's end, which is left out. Throws when there is none within so many bytes. */
  line(bytesMax: number): Promise<Buffer>;
  /** Exactly so many bytes. Throws when there are fewer. */
  take(length: CopyPart["length"]): Promise<Buffer>;
}

const lineEnd = 10;

function createSource(asked: AsyncIterable<Uint8Array>): Source {
  const chunks = asked[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  const more = async (): Promise<Buffer> => {
    const next = await chunks.next();
    if (next.done === true) throw new Error("the request breaks off");
    return Buffer.from(next.value);
  };
  return {
    async line(bytesMax) {
      for (;;) {
        const end = held.indexOf(lineEnd);
        if (end >= 0) {
          const line = held.subarray(0, end);
          held = held.subarray(end + 1);
          return line;
        }
        if (held.length > bytesMax) throw new Error("the request has no end");
        held = Buffer.concat([held, await more()]);
      }
    },
    async take(length) {
      const parts = [held];
      let have = held.length;
      while (have < length) {
        const part = await more();
        parts.push(part);
        have += part.length;
      }
      const all = Buffer.concat(parts);
      held = all.subarray(length);
      return all.subarray(0, length);
    },
  };
}
