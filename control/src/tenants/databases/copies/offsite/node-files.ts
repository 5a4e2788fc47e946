import type { Duplex } from "node:stream";
import {
  type CopyListing,
  type CopyPart,
  type CopyRequest,
  copyBytesMax,
  copyListing,
  copyPartsMax,
  copyWritten,
  partGone,
} from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";

/** A tunnel to the files of a copy on a node; see `fleet/tunnels`. The signal ends it, too. */
export type OpenCopyFiles = (target: { nodeId: string; copyId: string }, signal: AbortSignal) => Promise<Duplex>;

/** The node does not do what it was asked, or not now. */
export class NodeFilesUnavailable extends Error {
  override readonly name = "NodeFilesUnavailable";
}

/** The files of a copy on a node. Methods throw `NodeFilesUnavailable`. */
export interface NodeFiles {
  list(signal: AbortSignal): Promise<CopyListing>;
  /** The bytes of each part; null: it is gone. */
  read(parts: readonly CopyPart[], signal: AbortSignal): Promise<(Buffer | null)[]>;
  /** `content` has the bytes of all parts, one after the other. */
  write(parts: readonly CopyPart[], content: Buffer, signal: AbortSignal): Promise<void>;
}

const callMs = 120_000;
const listingBytesMax = 64 * 1024 * 1024;
const readBytesMax = copyBytesMax + 4 * copyPartsMax;

export function nodeFiles(
  { clock, openCopyFiles }: { clock: Clock; openCopyFiles: OpenCopyFiles },
  target: { nodeId: string; copyId: string },
): NodeFiles {
  async function call(
    request: CopyRequest,
    { content, bytesMax, signal }: { content?: Buffer; bytesMax: number; signal: AbortSignal },
  ): Promise<Buffer> {
    const bounded = AbortSignal.any([signal, clock.abortAfter(callMs)]);
    try {
      const stream = await openCopyFiles(target, bounded);
      try {
        stream.write(`${JSON.stringify(request)}\n`);
        if (content !== undefined) stream.write(content);
        stream.end();
        return await readAll(stream, bytesMax);
      } finally {
        stream.destroy();
      }
    } catch (cause) {
      signal.throwIfAborted();
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new NodeFilesUnavailable(`its node did not ${request.do} files of the copy: ${why}`, { cause });
    }
  }
  return {
    async list(signal) {
      const answer = await call({ do: "list" }, { bytesMax: listingBytesMax, signal });
      return parsed(() => copyListing.parse(JSON.parse(answer.toString("utf8"))));
    },
    async read(parts, signal) {
      const answer = await call({ do: "read", parts: [...parts] }, { bytesMax: readBytesMax, signal });
      return parsed(() => unframed(parts, answer));
    },
    async write(parts, content, signal) {
      const answer = await call({ do: "write", parts: [...parts] }, { content, bytesMax: 100, signal });
      parsed(() => copyWritten.parse(JSON.parse(answer.toString("utf8"))));
    },
  };
}

async function readAll(stream: Duplex, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > bytesMax) throw new Error("its answer has no end");
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** An answer that ends early is no other one. */
function parsed<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new NodeFilesUnavailable("its node answered something else than was asked for", { cause });
  }
}

function unframed(parts: readonly CopyPart[], answer: Buffer): (Buffer | null)[] {
  let at = 0;
  const contents = parts.map(({ length }) => {
    const told = answer.readUInt32BE(at);
    at += 4;
    if (told === partGone) return null;
    if (told !== length || at + length > answer.length) throw new Error("a part has another length");
    at += length;
    return answer.subarray(at - length, at);
  });
  if (at !== answer.length) throw new Error("there is more than was asked for");
  return contents;
}
