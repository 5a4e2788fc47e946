// @pure
import { decodePath, fill, matchPath, withoutSlash } from "./pattern.ts";
import type { RedirectRule } from "./redirects.ts";
import type { SiteRules } from "./rules.ts";
import { ruleLimits } from "./text.ts";

/** What becomes of a request. */
export type RuleDecision =
  | { do: "redirect"; status: number; location: string }
  /** Serve the file at `path` (encoded; null: of the request) with these headers. */
  | { do: "serve"; path: string | null; isMissing: boolean; headers: readonly { name: string; value: string }[] };

/** What was asked for, and of which site. */
export interface RuledRequest {
  /** With a port, if the visitor named one. */
  host: string;
  /** As it was sent, without query. */
  path: string;
  /** With its question mark; "" without one. */
  query: string;
  /** Whether the site has something under the path. */
  hasFile: boolean;
}

/**
 * The first redirect that matches, else the site as it is. A rule that is not forced leaves paths alone that have a file, and
 * none leads back to where it was asked for. Headers are of the path that was asked for, of all rules that match.
 */
export function decide(rules: SiteRules, { host, path, query, hasFile }: RuledRequest): RuleDecision {
  // Matching takes time from all other sites of an edge. Not even a file is shown: it would come without its headers.
  if (path.length > ruleLimits.askedPathMax) return { do: "serve", path: "/404.html", isMissing: true, headers: [] };
  const decoded = decodePath(path);
  if (decoded === null) return { do: "serve", path: null, isMissing: false, headers: [] };
  const headers = rules.headers.flatMap((rule) => (matchPath(rule.path, decoded) === null ? [] : rule.headers));
  for (const { from, to, status, isForced } of redirectsFor(rules, decoded)) {
    if (hasFile && !isForced) continue;
    const values = matchPath(from, decoded);
    if (values === null) continue;
    // Two slashes in front would name another host.
    const target = to.startsWith("/") ? fill(to, values).replace(/^\/+/, "/") : fill(to, values);
    if (status === 200 || status === 404) return { do: "serve", path: target, isMissing: status === 404, headers };
    if (!leadsBack(target, host, decoded)) return { do: "redirect", status, location: withQuery(target, query) };
  }
  return { do: "serve", path: null, isMissing: false, headers };
}

/** Those that may match a path, in their order. */
function redirectsFor({ redirects, places: { plain, patterns } }: SiteRules, path: string): RedirectRule[] {
  const places = [...(plain.get(withoutSlash(path)) ?? []), ...patterns].sort((a, b) => a - b);
  return places.flatMap((place) => redirects[place] ?? []);
}

function leadsBack(target: string, host: string, path: string): boolean {
  const [, authority = host, rest = ""] = /^(?:https?:\/\/([^/?#]*))?([^?#]*)/i.exec(target) ?? [];
  return authority.toLowerCase() === host && decodePath(rest === "" ? "/" : rest) === path;
}

/** The visitor's query goes along, unless the target has one of its own. */
function withQuery(target: string, query: string): string {
  if (query === "" || target.includes("?")) return target;
  const [path = "", ...fragment] = target.split("#");
  return [path + query, ...fragment].join("#");
}
