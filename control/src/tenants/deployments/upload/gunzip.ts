import { crc32, createInflateRaw } from "node:zlib";

/** Inflates one gzip file piece by piece. Every method throws InvalidGzipError. */
export interface Gunzip extends Disposable {
  /** Resolves when all of `chunk` was inflated and given away. */
  write(chunk: Buffer): Promise<void>;
  /** To be called when there is no more: makes sure of length and checksum. */
  end(): Promise<void>;
}

/** Not one whole gzip file; the message is a clause. */
export class InvalidGzipError extends Error {
  override readonly name = "InvalidGzipError";
}

const magic = Buffer.of(0x1f, 0x8b);
const trailerBytes = 8;
/** Names and comments of packers are short. */
const headerBytesMax = 4096;
/** What is inflated is looked at in this thread, piece by piece. */
const inflatedChunkBytes = 128 * 1024;

/**
 * Hands what `chunk`s inflate to to `take`, which may throw to refuse it; the work is done outside this thread. Node's
 * own gunzip goes on with a second file behind the first, and overlooks a beginning of one: what it makes of such
 * bytes depends on how they are cut into chunks. So one file and nothing behind it is all that is accepted.
 */
export function createGunzip(take: (bytes: Buffer) => void): Gunzip {
  const inflate = createInflateRaw({ chunkSize: inflatedChunkBytes });
  let state: "header" | "body" | "trailer" = "header";
  /** Of the header or the trailer. */
  let held = Buffer.alloc(0);
  let checksum = 0;
  let sizeBytes = 0;
  let failure: unknown = null;
  /** The inflater has come to the end of the compressed data. */
  let over = false;
  let wake = (): void => {};

  inflate.on("data", (bytes: Buffer) => {
    if (failure !== null) return;
    checksum = crc32(bytes, checksum);
    sizeBytes += bytes.length;
    try {
      take(bytes);
    } catch (error) {
      inflate.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  });
  inflate.on("end", () => {
    over = true;
    wake();
  });
  inflate.on("error", (error: Error & { code?: string }) => {
    failure = error.code?.startsWith("Z_") === true ? new InvalidGzipError("its compression is damaged") : error;
    wake();
  });

  /** Begins something, and waits until it has called back, or the inflater is at its end or has failed. */
  const settled = async (begin: (done: () => void) => void): Promise<void> => {
    await new Promise<void>((resolve) => {
      wake = resolve;
      begin(resolve);
    });
    if (failure !== null) throw failure;
  };

  const writeBody = async (chunk: Buffer): Promise<void> => {
    const before = inflate.bytesWritten;
    await settled((done) => inflate.write(chunk, done));
    if (!over) return;
    state = "trailer";
    writeTrailer(chunk.subarray(inflate.bytesWritten - before));
  };

  const writeTrailer = (chunk: Buffer): void => {
    held = Buffer.concat([held, chunk]);
    if (held.length > trailerBytes) throw new InvalidGzipError("something follows it");
  };

  return {
    async write(chunk) {
      if (state === "trailer") return writeTrailer(chunk);
      if (state === "body") return writeBody(chunk);
      held = Buffer.concat([held, chunk]);
      const length = headerLength(held);
      if (length === null) return;
      const body = held.subarray(length);
      held = Buffer.alloc(0);
      state = "body";
      if (body.length > 0) await writeBody(body);
    },
    async end() {
      if (state === "header") throw new InvalidGzipError(held.length === 0 ? "it is empty" : "it is cut off");
      // The end of the compressed data may have been the end of the last chunk.
      if (state === "body") await settled(() => inflate.end());
      if (held.length < trailerBytes) throw new InvalidGzipError("it is cut off");
      if (held.readUInt32LE(0) !== checksum || held.readUInt32LE(4) !== sizeBytes % 2 ** 32)
        throw new InvalidGzipError("its checksum is wrong");
    },
    [Symbol.dispose]() {
      failure ??= new Error("the archive is not looked at any more");
      inflate.destroy();
      wake();
    },
  };
}

/** Length of the header that `bytes` begin with; null while it is not all there. */
function headerLength(bytes: Buffer): number | null {
  const begin = bytes.subarray(0, magic.length);
  if (!begin.equals(magic.subarray(0, begin.length))) throw new InvalidGzipError("it is not gzipped");
  const end = endOfHeader(bytes);
  if (end === null && bytes.length > headerBytesMax) throw new InvalidGzipError("its header is too long");
  return end;
}

/** RFC 1952, 2.3. */
function endOfHeader(bytes: Buffer): number | null {
  const method = bytes[2];
  const flags = bytes[3];
  if (bytes.length < 10 || flags === undefined) return null;
  if (method !== 8 || (flags & 0xe0) !== 0) throw new InvalidGzipError("it is not gzipped");
  let at = 10;
  if ((flags & 0x04) !== 0) {
    if (bytes.length < at + 2) return null;
    at += 2 + bytes.readUInt16LE(at);
  }
  for (const flag of [0x08, 0x10]) {
    if ((flags & flag) === 0) continue;
    const end = bytes.indexOf(0, at);
    if (end === -1) return null;
    at = end + 1;
  }
  if ((flags & 0x02) === 0) return at <= bytes.length ? at : null;
  if (bytes.length < at + 2) return null;
  if (bytes.readUInt16LE(at) !== (crc32(bytes.subarray(0, at)) & 0xffff))
    throw new InvalidGzipError("its checksum is wrong");
  return at + 2;
}
