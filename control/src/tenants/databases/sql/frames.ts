/** Of the header of a frame: how many bytes follow, big-endian. */
const headerBytes = 4;
/** What a stream's writer may hand over at once. Whoever sends more has gone wrong. */
export const frameBytesMax = 16 * 1024 * 1024;

/**
 * A child process answers many requests over one pipe, each with a connection of its own to a server. Frames tell where the bytes
 * of one connection end, so that nothing of it reaches the next one: an empty frame is that end, once in each direction.
 */
export function frameOf(payload: Buffer): Buffer[] {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32BE(payload.length);
  return payload.length === 0 ? [header] : [header, payload];
}

/** The frame after which a connection has no more bytes. */
export const endFrame: Buffer = Buffer.alloc(headerBytes);

export interface FrameHandlers {
  /** A part of a frame, or all of it: bytes are handed on as they come. */
  bytes(chunk: Buffer): void;
  /** Of one connection. */
  end(): void;
}

/** Takes the bytes of a pipe in any portions. Throws on a frame that is larger than any may be. */
export function createFrameReader({ bytes, end }: FrameHandlers): (chunk: Buffer) => void {
  let header = Buffer.alloc(0);
  let left = 0;
  return (chunk) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (left > 0) {
        const part = rest.subarray(0, left);
        rest = rest.subarray(part.length);
        left -= part.length;
        bytes(part);
        continue;
      }
      const missing = headerBytes - header.length;
      header = Buffer.concat([header, rest.subarray(0, missing)]);
      rest = rest.subarray(missing);
      if (header.length < headerBytes) return;
      left = header.readUInt32BE();
      header = Buffer.alloc(0);
      if (left > frameBytesMax) throw new Error(`a frame of ${left} bytes`);
      if (left === 0) end();
    }
  };
}
