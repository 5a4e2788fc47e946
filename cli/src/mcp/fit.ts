/** What a result may weigh on the wire: models pay for every byte of it. */
export const resultBytesMax = 32 * 1024;
/** What of that a log, rows or a list may take; the rest is for what stands around it. */
export const pageBytesMax = 24 * 1024;

const bytesOf = (text: string): number => Buffer.byteLength(text);

/** What a value weighs in a result: it stands there as JSON, and once more as JSON within a text. */
export function weightOf(value: unknown): number {
  const json = JSON.stringify(value) ?? "";
  return bytesOf(json) + bytesOf(JSON.stringify(json));
}

/** A part of a text, cut at ends of lines where it has some. `olderCursor` leads to what is before it; null: nothing is. */
export interface Page {
  text: string;
  olderCursor: string | null;
}

/**
 * The last lines of the first `end` characters of a text that fit. What a text grows by at its end moves no such cursor.
 * `end` beyond the text is its end.
 */
export function lastPage(text: string, end = text.length, bytesMax = pageBytesMax): Page {
  const until = Math.min(Math.max(0, end), text.length);
  let start = until;
  let weight = 0;
  while (start > 0) {
    // Of the first character nothing is before it, and a negative place would be that of it.
    const lineStart = start === 1 ? 0 : text.lastIndexOf("\n", start - 2) + 1;
    weight += weightOf(text.slice(lineStart, start));
    if (weight > bytesMax) break;
    start = lineStart;
  }
  // A line that does not fit by itself is cut, so that there is always something, and the next page goes on.
  if (start === until && until > 0) start = lastFitting(text, until, bytesMax);
  return { text: text.slice(start, until), olderCursor: start === 0 ? null : String(start) };
}

/** Where the longest end of the first `until` characters begins that fits, by halves. */
function lastFitting(text: string, until: number, bytesMax: number): number {
  let length = Math.min(until, bytesMax);
  while (length > 1 && weightOf(text.slice(until - length, until)) > bytesMax) length = Math.floor(length / 2);
  const start = until - length;
  // Not between the halves of a character.
  return start > 0 && /[\udc00-\udfff]/.test(text[start] ?? "") && length > 1 ? start + 1 : start;
}

/** How many of the first items fit, at least one where there is one. */
export function countFitting(items: readonly unknown[], bytesMax = pageBytesMax): number {
  let weight = 0;
  const over = items.findIndex((item) => {
    weight += weightOf(item) + 2;
    return weight > bytesMax;
  });
  return over === -1 ? items.length : Math.max(1, over);
}

interface Loss {
  texts: number;
  entries: number;
}

/** A copy with texts of at most `textMax` characters and lists of at most `listMax` entries; counts what goes. */
function shrink(value: unknown, textMax: number, listMax: number, loss: Loss): unknown {
  if (typeof value === "string") {
    if (value.length <= textMax) return value;
    loss.texts++;
    return `${value.slice(0, textMax).toWellFormed()}…`;
  }
  if (Array.isArray(value)) {
    loss.entries += Math.max(0, value.length - listMax);
    return value.slice(0, listMax).map((each) => shrink(each, textMax, listMax, loss));
  }
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shrink(each, textMax, listMax, loss)]));
}

/**
 * `payload` so that it fits: as it is, or with long texts and lists cut, and a `cut` that says so. Tools that know where to
 * cut do so themselves; this is for what nobody thought to be large.
 */
export function fit<T extends object>(payload: T, bytesMax = resultBytesMax): T & { cut?: string } {
  const room = bytesMax - 512;
  let fitted: unknown = payload;
  for (let textMax = 8192, listMax = 256; weightOf(fitted) > room; textMax >>= 1, listMax = Math.max(1, listMax >> 1)) {
    const loss: Loss = { texts: 0, entries: 0 };
    const before = "cut" in payload ? `${String(payload.cut)}; ` : "";
    const shrunk = shrink(payload, textMax, listMax, loss) as object;
    fitted = {
      ...shrunk,
      cut: `${before}${loss.texts} long texts were shortened, and ${loss.entries} entries of lists left out`,
    };
    if (textMax < 32) break;
  }
  return fitted as T & { cut?: string };
}
