// @pure
import { type PathPattern, parsePattern } from "./pattern.ts";
import { linesOf, type RuleProblem, ruleLimits } from "./text.ts";

export interface HeaderRule {
  path: PathPattern;
  /** In the order of the file; a name may be there again. */
  headers: readonly { name: string; value: string }[];
}

/** Says how the bytes travel, or what the file is: the edge's to say. */
const ofTheEdge = new Set(
  `accept-ranges age allow alt-svc connection content-encoding content-length content-range date etag expect host
  keep-alive last-modified location proxy-authenticate proxy-authorization proxy-connection retry-after server te trailer
  transfer-encoding upgrade vary via www-authenticate`.split(/\s+/),
);

/** Reads a `_headers` file: a path, and below it indented lines `Name: value`. Lines with a mistake have no effect. */
export function parseHeaders(text: string): { rules: HeaderRule[]; problems: RuleProblem[] } {
  const rules: HeaderRule[] = [];
  const problems: RuleProblem[] = [];
  /** Null below a path with a mistake, whose headers are not told about. */
  let headers: { name: string; value: string }[] | null = null;
  let hasPath = false;
  for (const line of linesOf(text)) {
    const tell = (message: string) => problems.push({ file: "_headers", line: line.number, message });
    if (line.text.length > ruleLimits.headerLineMax) {
      tell(`A line may have ${ruleLimits.headerLineMax} characters.`);
      if (!line.isIndented) headers = null;
    } else if (!line.isIndented) {
      hasPath = true;
      const path = parsePattern(line.text);
      headers = typeof path === "string" || rules.length >= ruleLimits.headerPathsMax ? null : [];
      if (typeof path === "string") tell(path);
      else if (headers === null) tell(`There may be ${ruleLimits.headerPathsMax} paths.`);
      else rules.push({ path, headers });
    } else if (!hasPath) {
      tell("Above the first header there is no path, in a line that is not indented.");
    } else if (headers !== null) {
      const header = parseHeader(line.text);
      if (typeof header === "string") tell(header);
      else if (headers.length >= ruleLimits.headersPerPathMax)
        tell(`A path may have ${ruleLimits.headersPerPathMax} headers.`);
      else headers.push(header);
    }
  }
  return { rules: rules.filter((rule) => rule.headers.length > 0), problems };
}

function parseHeader(text: string): { name: string; value: string } | string {
  if (text.startsWith("!")) return `Headers cannot be taken away with "!".`;
  const [, name, value = ""] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*)$/.exec(text) ?? [];
  if (name === undefined) return "A header is: name, colon, value.";
  const lower = name.toLowerCase();
  if (value === "") return `${name} has no value.`;
  if (!/^[\x20-\x7e\t]+$/.test(value)) return `The value of ${name} has characters that a header cannot have.`;
  if (lower === "strict-transport-security")
    return "Strict-Transport-Security is not set by a site, since it holds for a domain beyond it.";
  if (ofTheEdge.has(lower) || /^x-(?:svc|accel|sendfile)/.test(lower)) return `${name} is not a site's to set.`;
  if (lower === "set-cookie" && /;\s*domain\s*=/i.test(value))
    return "A cookie is of its host alone: leave out Domain.";
  return { name, value };
}
