import { clip, utf8Length } from "@svc/proto";
import { withoutEpilogue } from "./epilogue.ts";

/** Where nothing looks like an error. */
const plainLines = 15;
const linesMax = 40;
/** Longer ones are cut at their end, or where no four would fit: an error says first what it is. */
const lineBytesMax = 1_000;
/** Errors so close together are told as one: the later one is often said of the earlier one. */
const nearLines = 10;

/** How an error begins, in the words of those who print them. What is indented belongs to the line above it. */
const beginnings: readonly RegExp[] = [
  // Error: x, TypeError: x, Error [ERR_X]: x, java.lang.IllegalStateException: x
  /^(?:Uncaught |Unhandled )?[\w$.]*(?:Error|Exception|Rejection)(?: \[\w+\])?:/,
  /^\[UnhandledPromiseRejection/,
  /^Traceback \(most recent call last\):/,
  /^(?:panic|fatal error): |^thread '.*' panicked at |^Exception in thread /,
  /^(?:PHP )?(?:Fatal|Parse) error:/i,
  /^(?:error|fatal)\b(?: TS\d+)?[: ]/i,
  // A level, in a line of a log.
  /(?<![\w-])(?:ERROR|FATAL|CRITICAL|PANIC)(?![\w-])/,
  /"level":\s*(?:[56]0|"(?:error|fatal|critical|panic)")/i,
  // Builds.
  /\berror TS\d+:/,
  /^(?:✗|✘|×|⨯) /,
  /^Failed to compile|^Module not found:|Cannot find module |Could not resolve |failed to resolve import /,
  /: (?:command )?not found$/,
  // Package managers.
  /^code E[A-Z]+$|^code \d+$/,
  /^\s?ERR_[A-Z]+_/,
  /^➤ YN(?!0000)\d{4}: [│·]/,
];
/** What a tool puts before the words of another one. */
const prefix = /^npm (?:error|ERR!) (?:gyp ERR! )?(?:stack )?/;
const frame = /^\s+at \S/;
/** Node shows a line of the source, and below it where in it. */
const caret = /^\s*\^+\s*$/;

/**
 * What of a program's last lines tells why it ended: from the last error on, 40 lines at most. The error's own line is
 * always there; of what follows the middle is left out where it does not fit. The last 15 where there is no error.
 */
export function fromLastError(log: readonly string[], maxBytes: number): string[] {
  const lineMaxBytes = Math.min(lineBytesMax, Math.floor(maxBytes / 4));
  const lines = withoutEpilogue(log.map((line) => line.trimEnd())).map((line) => clip(line, lineMaxBytes));
  while (lines.at(-1) === "") lines.pop();
  const fits = (from: number): boolean => lines.length - from <= linesMax && sizeOf(lines.slice(from)) <= maxBytes;
  const last = lines.findLastIndex((_, at) => begins(lines, at));
  if (last === -1) {
    const filled = lines.filter((line) => line !== "");
    return take(filled.toReversed(), plainLines, maxBytes).reverse();
  }
  let from = last;
  for (let at = last - 1; at >= 0 && from - at <= nearLines && fits(at); at -= 1) if (begins(lines, at)) from = at;
  const shown = sourceAbove(lines, from);
  return squeeze(lines.slice(fits(shown) ? shown : from), maxBytes);
}

function begins(lines: readonly string[], at: number): boolean {
  const line = (lines[at] ?? "").replace(prefix, "");
  if (line === "" || /^(?:\s{2}|\t)/.test(line)) return false;
  if (beginnings.some((beginning) => beginning.test(line))) return true;
  // Whatever it is called: a stack follows, or the source with a mark went before.
  if (frame.test(lines[at + 1] ?? "")) return !line.startsWith("Emitted '");
  return caret.test(lines[at - 1] ?? "") || (lines[at - 1] === "" && caret.test(lines[at - 2] ?? ""));
}

/** Where the source begins that Node shows above an error; the error's own place when it shows none. */
function sourceAbove(lines: readonly string[], at: number): number {
  const mark = [at - 1, at - 2].find((above) => caret.test(lines[above] ?? ""));
  return mark === undefined || mark < 2 ? at : mark - 2;
}

/** Bytes of the lines together, each with its line feed. */
const sizeOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + utf8Length(line) + 1, 0);

/** The lines within the bounds: two thirds of the room for the first ones, the rest for the last. */
function squeeze(lines: readonly string[], maxBytes: number): string[] {
  if (lines.length <= linesMax && sizeOf(lines) <= maxBytes) return [...lines];
  const note = (count: number): string => `[${count} lines left out]`;
  const roomBytes = maxBytes - utf8Length(note(lines.length)) - 1;
  const first = take(lines, Math.floor((linesMax * 2) / 3), (roomBytes * 2) / 3);
  const rest = lines.slice(first.length);
  const last = take(rest.toReversed(), linesMax - 1 - first.length, roomBytes - sizeOf(first)).reverse();
  return [...first, note(rest.length - last.length), ...last];
}

/** As many as fit from the front. */
function take(lines: readonly string[], maxLines: number, maxBytes: number): string[] {
  const taken: string[] = [];
  let bytes = 0;
  for (const line of lines.slice(0, maxLines)) {
    bytes += utf8Length(line) + 1;
    if (bytes > maxBytes) break;
    taken.push(line);
  }
  return taken;
}
