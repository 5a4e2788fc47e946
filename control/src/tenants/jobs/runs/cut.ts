// @pure
import { limits } from "@svc/proto";

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Bytes for the line that says how much is left out. */
const markBytes = 128;

const isInside = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/**
 * What is shown of an output of `total` bytes, of which `chunks` has at least both ends: all of it up to `maxBytes`, or else as
 * much of its beginning as of its end, with a line between that says how much is not shown. No character is cut.
 */
export function cutMiddle(
  chunks: readonly { offset: number; data: Uint8Array }[],
  total: number,
  maxBytes: number = limits.jobLogBytesMax,
): { log: string; omittedBytes: number } {
  const bytesOf = (from: number, to: number): Uint8Array => {
    const bytes = new Uint8Array(to - from);
    for (const { offset, data } of chunks) {
      const [begin, end] = [Math.max(from, offset), Math.min(to, offset + data.length)];
      if (begin < end) bytes.set(data.subarray(begin - offset, end - offset), begin - from);
    }
    return bytes;
  };
  if (total <= maxBytes) return { log: decoder.decode(bytesOf(0, total)), omittedBytes: 0 };
  const half = Math.floor((maxBytes - markBytes) / 2);
  const head = bytesOf(0, half);
  const tail = bytesOf(total - half, total);
  let headEnd = head.length;
  // One that begins in the head and ends after it is left out, and so is the rest of one in the tail.
  while (headEnd > 0 && isInside(head[headEnd - 1])) headEnd -= 1;
  if (headEnd > 0 && (head[headEnd - 1] ?? 0) >= 0xc0) headEnd -= 1;
  else headEnd = head.length;
  let tailBegin = 0;
  while (tailBegin < tail.length && isInside(tail[tailBegin])) tailBegin += 1;
  const omittedBytes = total - headEnd - (tail.length - tailBegin);
  const mark = `\n[${omittedBytes} bytes are not shown]\n`;
  return {
    log: `${decoder.decode(head.subarray(0, headEnd))}${mark}${decoder.decode(tail.subarray(tailBegin))}`,
    omittedBytes,
  };
}
