/** Puts what the engine did to the output of one step into words. */
export interface ClipReader {
  /** The same output; where the engine left something out, a line says so. */
  take(chunk: Buffer): Buffer;
}

/** Ends what the engine passes on before it leaves something out; it does not say how much that is. */
const clipMark = /\n\[output clipped, log limit (\d[\w.]*(?:\/s)?) reached\]\n$/;
/** More than any mark has. */
const markBytesMax = 100;

/**
 * The engine passes on so much of a step's output and leaves the rest out, wherever that cuts: also in the middle of a
 * character, of which nothing is left here, before the gap and behind it.
 */
export function createClipReader(): ClipReader {
  let isBehindGap = false;
  // The beginning of a character: whether its rest comes, or a gap, is in the next piece.
  let begun: Buffer = Buffer.alloc(0);
  return {
    take(chunk) {
      const text = isBehindGap ? withoutTail(chunk) : Buffer.concat([begun, chunk]);
      const end = text.subarray(Math.max(0, text.length - markBytesMax)).toString("latin1");
      const mark = clipMark.exec(end);
      isBehindGap = mark !== null;
      const passed = withoutHead(mark === null ? text : text.subarray(0, text.length - mark[0].length));
      begun = mark === null ? text.subarray(passed.length) : Buffer.alloc(0);
      return mark === null ? passed : Buffer.concat([passed, Buffer.from(`\n${note(mark[1] ?? "")}\n`)]);
    },
  };
}

const note = (limit: string): string =>
  limit.endsWith("/s")
    ? `[the node's container engine passes on ${limit} of a step's output, and left out what came faster: let the step say less]`
    : `[the node's container engine passes on ${limit} of a step's output, and leaves out the rest: let the step say less]`;

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/** Without what a character has left whose beginning is gone. */
function withoutTail(bytes: Buffer): Buffer {
  let from = 0;
  while (from < 3 && isContinuation(bytes[from])) from += 1;
  return bytes.subarray(from);
}

/** Without the beginning of a character whose rest is gone. */
function withoutHead(bytes: Buffer): Buffer {
  let at = bytes.length - 1;
  while (at > bytes.length - 4 && isContinuation(bytes[at])) at -= 1;
  const first = bytes[at] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return at + length > bytes.length ? bytes.subarray(0, at) : bytes;
}
