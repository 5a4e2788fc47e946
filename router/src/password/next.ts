// @pure
/** Where the password is typed in and sent to; no site can have a page there. */
export const passwordPath = "/_svc/password";
/** Says on the page that the password was wrong. */
export const errorParameter = "svc_error";

const lengthMax = 2048;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const unsafe = /[\u0000-\u0020\u007f-\uffff\\]/;

/**
 * Path and query that a visitor is sent back to, made of what their browser said; "/" when that is not plainly a place
 * on the site. Whatever it says, the result belongs behind scheme and host of the site, never alone.
 */
export function safeNext(said: string | null): string {
  if (said === null || said.length > lengthMax || unsafe.test(said)) return "/";
  if (!said.startsWith("/") || said.startsWith("//")) return "/";
  const base = "http://site.invalid";
  if (!URL.canParse(said, base)) return "/";
  const { origin, pathname, search, searchParams } = new URL(said, base);
  if (origin !== base || pathname === passwordPath) return "/";
  if (!searchParams.has(errorParameter)) return `${pathname}${search}`;
  const kept = search
    .slice(1)
    .split("&")
    .filter((pair) => pair !== errorParameter && !pair.startsWith(`${errorParameter}=`));
  return kept.length === 0 ? pathname : `${pathname}?${kept.join("&")}`;
}

/** The same place, with the word that the password was wrong. */
export const withError = (next: string): string => `${next}${next.includes("?") ? "&" : "?"}${errorParameter}=1`;

/** Path and query of the page that sent a form; null when it was none of this host's. */
export function refererPath(referer: string | undefined, host: string): string | null {
  if (referer === undefined || !URL.canParse(referer)) return null;
  const url = new URL(referer);
  return url.hostname === host ? `${url.pathname}${url.search}` : null;
}
