/** Decides which paths of a project stay out of a build's context. */
export type Ignore = (path: string) => boolean;

/**
 * Reads a `.dockerignore`: one pattern per line, of which the last that fits decides; `!` takes a path back in.
 * `*` and `?` stay inside one name, `**` spans directories, and a pattern that fits a directory fits all below.
 */
export function parseIgnore(text: string): Ignore {
  const rules = text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .map((line) => (line.startsWith("#") ? "" : line.trim()))
    .flatMap((line) => {
      const keeps = line.startsWith("!");
      const pattern = cleanPath(keeps ? line.slice(1).trim() : line);
      return pattern === "" ? [] : [{ keeps, expression: toExpression(pattern) }];
    });
  return (path) => {
    const candidates = withParents(path);
    return rules.findLast(({ expression }) => candidates.some((at) => expression.test(at)))?.keeps === false;
  };
}

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

const withParents = (path: string): string[] => {
  const parts = path.split("/");
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
};

function toExpression(pattern: string): RegExp {
  let source = "";
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern[at] ?? "";
    if (pattern.startsWith("**", at)) {
      at += pattern[at + 2] === "/" ? 2 : 1;
      source += at + 1 >= pattern.length ? ".*" : "(?:.*/)?";
    } else if (character === "*") source += "[^/]*";
    else if (character === "?") source += "[^/]";
    else if (character === "\\") {
      at += 1;
      source += escapePattern(pattern[at] ?? "\\");
    } else if (character === "[") {
      const end = pattern.indexOf("]", at + 2);
      const inner = end < 0 ? "" : pattern.slice(at + 1, end);
      const range = inner.replace(/^!/, "^").replaceAll(/[\\[\]]/g, "\\$&");
      source += end < 0 ? "\\[" : `[${range}]`;
      if (end >= 0) at = end;
    } else source += escapePattern(character);
  }
  try {
    return new RegExp(`^${source}$`, "s");
  } catch {
    // A range that makes no sense, such as [z-a], fits nothing.
    return /(?!)/;
  }
}

const escapePattern = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
