import { plural } from "@svc/proto";

/**
 * Keeps the beginning and the end of a text that is longer than may be kept, each half of it in whole lines, with a line
 * in between that says how much was left out. What comes of a text depends on the text alone, and not on when it was written.
 */
export interface BothEnds {
  /** Takes a line, its end included, and returns what may be passed on at once. */
  push(line: string): string;
  /** The rest: what was left out, and the end. */
  end(): string;
}

/** Room for the line in between. */
const noteBytesMax = 64;
const lineEnd = 0x0a;

/** @param maxBytes of all that it returns */
export function createBothEnds(maxBytes: number): BothEnds {
  const headMax = Math.floor(maxBytes / 2);
  const tailMax = maxBytes - headMax - noteBytesMax;
  let headBytes = 0;
  let isHeadFull = false;
  /** The newest bytes behind the head, written round and round. */
  let ring: Buffer | null = null;
  /** How many bytes and lines came behind the head. */
  let behind = { bytes: 0, lines: 0 };

  const keep = (bytes: Buffer): void => {
    ring ??= Buffer.alloc(tailMax);
    const newest = bytes.subarray(Math.max(0, bytes.length - tailMax));
    const at = (behind.bytes + bytes.length - newest.length) % tailMax;
    const untilEnd = newest.copy(ring, at);
    newest.copy(ring, 0, untilEnd);
    behind = { bytes: behind.bytes + bytes.length, lines: behind.lines + 1 };
  };

  return {
    push(line) {
      const bytes = Buffer.byteLength(line);
      isHeadFull ||= headBytes + bytes > headMax;
      if (isHeadFull) {
        keep(Buffer.from(line));
        return "";
      }
      headBytes += bytes;
      return line;
    },
    end() {
      if (ring === null) return "";
      if (behind.bytes <= tailMax) return ring.toString("utf8", 0, behind.bytes);
      const start = behind.bytes % tailMax;
      const newest = Buffer.concat([ring.subarray(start), ring.subarray(0, start)]);
      const kept = newest.subarray(beginning(newest));
      const bytes = behind.bytes - kept.length;
      const lines = behind.lines - countLines(kept);
      return `[${plural(lines, "line")} left out, ${plural(bytes, "byte")}]\n${kept.toString("utf8")}`;
    },
  };
}

/** Where the first whole line begins, or where there is none the first whole character. */
function beginning(bytes: Buffer): number {
  const at = bytes.indexOf(lineEnd) + 1;
  if (at < bytes.length) return at;
  const character = bytes.findIndex((byte) => (byte & 0b1100_0000) !== 0b1000_0000);
  return Math.max(0, character);
}

function countLines(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(lineEnd); at !== -1; at = bytes.indexOf(lineEnd, at + 1)) lines += 1;
  return lines;
}
