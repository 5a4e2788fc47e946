// @pure
import { clip, utf8Length } from "../text.ts";
import { type HeaderRule, parseHeaders } from "./headers.ts";
import { parseRedirects, type RedirectRule } from "./redirects.ts";
import { type RuleProblem, ruleLimits } from "./text.ts";

/** What a static site says of its paths, besides its files. */
export interface SiteRules {
  /** In the order of the file. */
  redirects: readonly RedirectRule[];
  /** Places of redirects in that order: of those from one path alone by their path, and of those that are matched. */
  places: { plain: ReadonlyMap<string, readonly number[]>; patterns: readonly number[] };
  headers: readonly HeaderRule[];
}

/** Files at the root of a site that are rules, and not for visitors. */
export const ruleFiles = ["_redirects", "_headers"] as const;
export type RuleFile = (typeof ruleFiles)[number];

/** Reads the two files; what is wrong in them has no effect. A file that is too large has none at all. */
export function parseSiteRules(texts: Readonly<Partial<Record<RuleFile, string>>>): {
  rules: SiteRules;
  problems: RuleProblem[];
} {
  const tooLarge = ruleFiles.filter((file) => utf8Length(texts[file] ?? "") > ruleLimits.fileBytesMax);
  const textOf = (file: RuleFile): string => (tooLarge.includes(file) ? "" : (texts[file] ?? ""));
  const redirects = parseRedirects(textOf("_redirects"));
  const headers = parseHeaders(textOf("_headers"));
  const problems = [
    ...tooLarge.map((file) => ({ file, line: 1, message: `The file may have ${ruleLimits.fileBytesMax} bytes.` })),
    ...redirects.problems,
    ...headers.problems,
  ];
  const places = placesOf(redirects.rules);
  return { rules: { redirects: redirects.rules, places, headers: headers.rules }, problems };
}

function placesOf(redirects: readonly RedirectRule[]): SiteRules["places"] {
  const plain = new Map<string, number[]>();
  const patterns: number[] = [];
  for (const [place, { from }] of redirects.entries()) {
    if (!("plain" in from)) patterns.push(place);
    else if (!plain.get(from.plain)?.push(place)) plain.set(from.plain, [place]);
  }
  return { plain, patterns };
}

/** One sentence for each, with file and line; of very many the first. */
export function ruleDoubts(problems: readonly RuleProblem[]): string[] {
  const told = problems
    .slice(0, ruleLimits.problemsMax)
    .map(({ file, line, message }) => clip(`${file} line ${line} has no effect: ${message}`, 300));
  const untold = problems.length - told.length;
  return untold > 0 ? [...told, `${untold} more lines of _redirects and _headers have no effect.`] : told;
}
