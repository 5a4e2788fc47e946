import { TaskFailure } from "../placements/failure.ts";

/** Decides which paths of a project stay out of a build's context. */
export type Ignore = (path: string) => boolean;

/** What a pattern is made of: one character of a set, any within a name, any at all, or any whole directories. */
type Part = ((character: string) => boolean) | "*" | "**" | "**/";

/**
 * Reads a `.dockerignore`: one pattern per line, of which the last that fits decides; `!` takes a path back in.
 * `*` and `?` stay inside one name, `**` spans directories, and a pattern that fits a directory fits all below.
 *
 * The patterns are a stranger's, and everybody waits for them: no way is tried twice, and what all files take together has a bound, beyond
 * which it throws TaskFailure.
 */
export function parseIgnore(text: string): Ignore {
  const rules = text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .map((line) => (line.startsWith("#") ? "" : line.trim()))
    .flatMap((line) => {
      const keeps = line.startsWith("!");
      const pattern = cleanPath(keeps ? line.slice(1).trim() : line);
      return pattern === "" ? [] : [{ keeps, parts: partsOf(pattern) }];
    })
    // The last that fits decides.
    .reverse();
  let stepsLeft = stepsMax;
  return (path) => {
    for (const { keeps, parts } of rules) {
      const { isFit, steps } = fits(parts, path);
      stepsLeft -= steps;
      if (stepsLeft < 0) throw tooMuch();
      if (isFit) return !keeps;
    }
    return false;
  };
}

/** Two seconds, in which nobody else has a turn. Fifty thousand files and twenty patterns take less than half of it. */
const stepsMax = 50_000_000;

const tooMuch = () =>
  new TaskFailure(
    "BUILD_FAILED",
    "The .dockerignore has too many patterns, or too many stars in them, for so many files. Name directories that are to stay out.",
  );

/** Without empty and `.` parts, `..` taken back, and no slash in front: patterns are relative to the context. */
function cleanPath(pattern: string): string {
  const parts: string[] = [];
  for (const part of pattern.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  return parts.join("/");
}

function partsOf(pattern: string): Part[] {
  const parts: Part[] = [];
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern[at] ?? "";
    if (pattern.startsWith("**", at)) {
      at += pattern[at + 2] === "/" ? 2 : 1;
      parts.push(at + 1 >= pattern.length ? "**" : "**/");
    } else if (character === "*") {
      if (parts.at(-1) !== "*") parts.push("*");
    } else if (character === "?") parts.push((one) => one !== "/");
    else if (character === "\\") {
      at += 1;
      parts.push(only(pattern[at] ?? "\\"));
    } else if (character === "[") {
      const end = pattern.indexOf("]", at + 2);
      parts.push(end < 0 ? only("[") : rangeOf(pattern.slice(at + 1, end)));
      if (end >= 0) at = end;
    } else parts.push(only(character));
  }
  return parts;
}

const only = (character: string) => (one: string) => one === character;

/** `[a-z]`, or `[!a-z]` for all others. A range that makes no sense, such as [z-a], fits nothing. */
function rangeOf(inner: string): (one: string) => boolean {
  const range = inner.replace(/^!/, "^").replaceAll(/[\\[\]]/g, "\\$&");
  try {
    const expression = new RegExp(`^[${range}]$`, "s");
    return (one) => expression.test(one);
  } catch {
    return () => false;
  }
}

/** Whether the parts fit the path, or a directory above it; all ways through them are followed at once, a character at a time. */
function fits(parts: readonly Part[], path: string): { isFit: boolean; steps: number } {
  let steps = 0;
  let now = new Set<number>();
  /** A way that is at a part: those that fit nothing are passed as well. */
  const reach = (into: Set<number>, at: number): void => {
    for (let to = at; !into.has(to); to += 1) {
      into.add(to);
      if (typeof parts[to] !== "string") return;
    }
  };
  reach(now, 0);
  for (let at = 0; at <= path.length; at += 1) {
    const character = path[at];
    const isWhole = now.has(parts.length);
    if (isWhole && (character === undefined || character === "/") && at > 0) return { isFit: true, steps };
    if (character === undefined) break;
    const [sole] = now;
    if (now.size === 1 && parts[sole ?? 0] === "**/" && character !== "/") {
      // Nothing else happens before the next name.
      const slash = path.indexOf("/", at);
      steps += 1;
      if (slash < 0) break;
      at = slash - 1;
      continue;
    }
    const next = new Set<number>();
    for (const each of now) {
      steps += 1;
      const part = parts[each];
      if (part === undefined) continue;
      if (part === "**") reach(next, each);
      else if (part === "*") {
        if (character !== "/") reach(next, each);
      } else if (part === "**/") {
        // Past it only behind a slash, or where it fits nothing.
        next.add(each);
        if (character === "/") reach(next, each + 1);
      } else if (part(character)) reach(next, each + 1);
    }
    if (next.size === 0) return { isFit: false, steps };
    now = next;
  }
  return { isFit: false, steps };
}
