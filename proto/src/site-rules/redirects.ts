// @pure
import { namesOf, type PathPattern, parsePattern, placeholdersOf } from "./pattern.ts";
import { type Line, linesOf, type RuleProblem, ruleLimits } from "./text.ts";

const statuses = [200, 301, 302, 303, 307, 308, 404] as const;
/** 200 shows another path of the site, 404 the same as "not found"; the others send visitors there. */
export type RedirectStatus = (typeof statuses)[number];

export interface RedirectRule {
  from: PathPattern;
  /** A path, or for redirects also a URL; with placeholders, and else as it may stand in a header. */
  to: string;
  status: RedirectStatus;
  /** Whether it holds also where the site has a file. */
  isForced: boolean;
}

/** Where nothing else is said. A browser remembers 301 for ever, also one that was a mistake. */
const usualStatus = 302;

/** Reads a `_redirects` file: `<from> <to> [<status>[!]]`. Lines with a mistake have no effect. */
export function parseRedirects(text: string): { rules: RedirectRule[]; problems: RuleProblem[] } {
  const rules: RedirectRule[] = [];
  const problems: RuleProblem[] = [];
  const counts = { plain: 0, pattern: 0 };
  for (const line of linesOf(text)) {
    const rule = parseLine(line);
    const problem = typeof rule === "string" ? rule : overLimit(rule, counts);
    if (problem !== null) problems.push({ file: "_redirects", line: line.number, message: problem });
    else if (typeof rule !== "string") rules.push(rule);
  }
  return { rules, problems };
}

function overLimit(rule: RedirectRule, counts: { plain: number; pattern: number }): string | null {
  const kind = namesOf(rule.from).length > 0 ? "pattern" : "plain";
  const max = kind === "plain" ? ruleLimits.plainRedirectsMax : ruleLimits.patternRedirectsMax;
  counts[kind] += 1;
  if (counts[kind] <= max) return null;
  return kind === "plain"
    ? `There may be ${max} rules without placeholders.`
    : `There may be ${max} rules with placeholders or "*".`;
}

function parseLine({ text }: Line): RedirectRule | string {
  if (text.length > ruleLimits.redirectLineMax) return `A line may have ${ruleLimits.redirectLineMax} characters.`;
  const [source = "", written, third, ...rest] = text.replace(/\s+#.*$/, "").split(/\s+/);
  const to = written?.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);
  if (to === undefined) return "A rule is: path, target, and a status if you like.";
  if (!isTarget(to))
    return /^[\w.-]+=/.test(to)
      ? "Conditions on the query are not supported."
      : `The target is a path that begins with "/", or a URL with http or https.`;
  const conditions = [third, ...rest].filter((part) => part !== undefined && !/^\d+!?$/.test(part));
  if (conditions.length > 0) return `Conditions such as ${conditions[0]} are not supported.`;
  if (rest.length > 0) return "There is more than one status.";
  const [, digits = String(usualStatus), force = ""] = /^(\d+)(!?)$/.exec(third ?? "") ?? [];
  const status = statuses.find((each) => each === Number(digits));
  if (status === undefined) return `The status ${digits} is not supported: one of ${statuses.join(", ")}.`;
  const from = parsePattern(source);
  if (typeof from === "string") return from;
  const known = namesOf(from);
  const unknown = placeholdersOf(pathOf(to)).find((name) => !known.includes(name));
  if (unknown !== undefined) return `:${unknown} is not in the path of this rule.`;
  const staysHere = to.startsWith("/");
  if (status === 200 || status === 404) {
    if (!staysHere) return `With ${status} the target is a path of this site: others are not fetched for visitors.`;
    if (/[?#]/.test(to)) return `With ${status} the target has no query.`;
  } else if (to === source) return "This would lead back to itself.";
  return { from, to, status, isForced: force === "!" };
}

/** Of a URL the host must not depend on who visits. */
const url = /^https?:\/\/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?(?=[/?#]|$)/i;
const isTarget = (to: string): boolean => url.test(to) || /^\/(?![/\\])/.test(to);

const pathOf = (to: string): string => to.replace(url, "");
