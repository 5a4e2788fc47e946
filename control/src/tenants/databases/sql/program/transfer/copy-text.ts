// @pure
import type { Framing } from "./framing.ts";

const [newline, backslash] = [0x0a, 0x5c];
/** What a letter after a backslash stands for in the text format of COPY; all else stands for itself. */
const escapes = new Map([..."bfnrtv"].map((letter, at) => [letter.charCodeAt(0), [8, 12, 10, 13, 9, 11][at] ?? 0]));

/**
 * Reads what COPY sends of one column in its text format, in any portions, and gives each row as it was, within `framing`. Keeps
 * nothing of a row, however long it is.
 */
export function createCopyReader(framing: Framing): (chunk: Buffer) => Buffer {
  let isEscaped = false;
  let isInRow = false;
  let rowBytes = 0;
  return (chunk) => {
    const parts: Buffer[] = [];
    let out = Buffer.allocUnsafe(chunk.length);
    let used = 0;
    const flush = (): void => {
      if (used > 0) parts.push(out.subarray(0, used));
      out = out.subarray(used);
      used = 0;
    };
    for (const byte of chunk) {
      if (!isInRow) {
        flush();
        parts.push(Buffer.from(framing.beforeRow()));
        isInRow = true;
        rowBytes = 0;
      }
      if (isEscaped) {
        out[used] = escapes.get(byte) ?? byte;
        used += 1;
        rowBytes += 1;
        isEscaped = false;
      } else if (byte === backslash) {
        isEscaped = true;
      } else if (byte === newline) {
        framing.afterRow(rowBytes);
        isInRow = false;
      } else {
        out[used] = byte;
        used += 1;
        rowBytes += 1;
      }
    }
    flush();
    return Buffer.concat(parts);
  };
}
