// @pure
import { passwordPath } from "../password/next.ts";

/** What the platform itself says to a visitor, when there is no site to say it. */
export interface Page {
  status: number;
  /** For programs; stable. */
  code: string;
  title: string;
  text: string;
  /** When asking again makes sense, in seconds; null when it does not. */
  retryAfterSeconds: number | null;
  /** Asks for the site's password. */
  asks?: boolean;
}

export const pages = {
  unknown: {
    status: 404,
    code: "SITE_NOT_FOUND",
    title: "There is no site here",
    text: "No site answers to this address. Check the spelling, or ask whoever gave you the link.",
    retryAfterSeconds: null,
  },
  stopped: {
    status: 503,
    code: "SITE_STOPPED",
    title: "This site is stopped",
    text: "Its owner has switched it off. It comes back as soon as they start it again.",
    retryAfterSeconds: 300,
  },
  suspended: {
    status: 503,
    code: "SITE_SUSPENDED",
    title: "This site is suspended",
    text: "It is not available at the moment. If it is yours, svc status says why.",
    retryAfterSeconds: 3600,
  },
  empty: {
    status: 404,
    code: "SITE_EMPTY",
    title: "Nothing is deployed here yet",
    text: "The address is taken, and the site appears with its first deployment.",
    retryAfterSeconds: null,
  },
  down: {
    status: 503,
    code: "SITE_DOWN",
    title: "This site is not running",
    text: "Its app has ended. Its owner can see why in the log and deploy again.",
    retryAfterSeconds: 300,
  },
  missing: {
    status: 404,
    code: "PAGE_NOT_FOUND",
    title: "Page not found",
    text: "The site has no page at this address.",
    retryAfterSeconds: null,
  },
  method: {
    status: 405,
    code: "METHOD_NOT_ALLOWED",
    title: "That cannot be done here",
    text: "This address can be read, and nothing else.",
    retryAfterSeconds: null,
  },
  starting: {
    status: 503,
    code: "EDGE_STARTING",
    title: "One moment, please",
    text: "This server has just been started and does not know its sites yet.",
    retryAfterSeconds: 2,
  },
  unreachable: {
    status: 502,
    code: "SITE_UNREACHABLE",
    title: "This site is not answering",
    text: "The server works, but the site behind it could not be reached. Please try again in a moment.",
    retryAfterSeconds: 5,
  },
  slow: {
    status: 504,
    code: "SITE_TIMEOUT",
    title: "This site is taking too long",
    text: "The server works, but the site behind it did not answer in time. Please try again in a moment.",
    retryAfterSeconds: 5,
  },
  password: {
    status: 401,
    code: "SITE_PASSWORD_REQUIRED",
    title: "This site is protected",
    text: "Its owner has set a password. Enter it to go on.",
    retryAfterSeconds: null,
    asks: true,
  },
  passwordWrong: {
    status: 401,
    code: "SITE_PASSWORD_WRONG",
    title: "This site is protected",
    text: "That password is not right. Check it, and try again.",
    retryAfterSeconds: null,
    asks: true,
  },
  passwordSlow: {
    status: 429,
    code: "SITE_PASSWORD_SLOW_DOWN",
    title: "This site is protected",
    text: "Too many attempts in a row. Wait a moment before the next.",
    retryAfterSeconds: null,
    asks: true,
  },
  passwordUnchecked: {
    status: 503,
    code: "SITE_PASSWORD_UNCHECKED",
    title: "The password could not be checked",
    text: "Nothing is wrong with what you entered. Please go back and try again in a moment.",
    retryAfterSeconds: 5,
  },
  failed: {
    status: 500,
    code: "REQUEST_FAILED",
    title: "This request could not be served",
    text: "Something went wrong on the way to the site.",
    retryAfterSeconds: null,
  },
} as const satisfies Record<string, Page>;

export type PageName = keyof typeof pages;

const isPageName = (name: string): name is PageName => Object.hasOwn(pages, name);
export const pageNames: readonly PageName[] = Object.keys(pages).filter(isPageName);

/** Headers of every page of ours: nothing may keep it, and nothing in it may load or run anything. */
export function pageHeaders(page: Page): Record<string, string> {
  return {
    "Cache-Control": "no-store",
    "Content-Security-Policy": `default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action ${page.asks ? "'self'" : "'none'"}`,
    // A password that was typed in leads back to where it was asked for.
    "Referrer-Policy": page.asks ? "same-origin" : "no-referrer",
    "X-Content-Type-Options": "nosniff",
    Vary: "Accept",
    ...(page.retryAfterSeconds !== null && { "Retry-After": String(page.retryAfterSeconds) }),
  };
}

export const htmlType = "text/html; charset=utf-8";
export const jsonType = "application/json; charset=utf-8";

/** The body for programs, with a line end. */
export const pageJson = ({ code, text }: Page): string =>
  `${JSON.stringify({ ok: false, error: { code, message: text } })}\n`;

const style = `
:root{color-scheme:light dark;--ground:#f6f5f2;--ink:#1c1b19;--soft:#66625b;--line:#dcd8d0;--mark:#b4532a}
@media (prefers-color-scheme:dark){:root{--ground:#151413;--ink:#f1eee8;--soft:#a29c92;--line:#35322e;--mark:#e08a5f}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;min-height:100svh;display:grid;place-items:center;padding:2rem 1.25rem;background:var(--ground);color:var(--ink);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{width:100%;max-width:32rem}
p{margin:0;color:var(--soft);text-wrap:pretty}
h1{margin:.75rem 0 .5rem;font-size:clamp(1.6rem,5vw,2.1rem);line-height:1.2;font-weight:650;letter-spacing:-.02em;text-wrap:balance}
.status{display:flex;align-items:center;gap:.6rem;font:600 .85rem/1 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;letter-spacing:.04em;color:var(--mark)}
.status::after{content:"";flex:1;height:1px;background:var(--line)}
`.replaceAll("\n", "");

const formStyle = `
form{display:grid;gap:.5rem;margin-top:1.75rem}
label{font-size:.9rem;font-weight:600}
.row{display:flex;flex-wrap:wrap;gap:.6rem}
input,button{font:inherit;line-height:1.4;padding:.65rem .9rem;border-radius:.5rem;border:1px solid var(--line);min-height:2.75rem}
input{flex:1 1 14rem;min-width:0;background:transparent;color:inherit;border-color:var(--soft)}
button{background:var(--ink);color:var(--ground);border-color:var(--ink);font-weight:600;cursor:pointer}
input:focus-visible,button:focus-visible{outline:3px solid var(--mark);outline-offset:2px}
[aria-invalid]{border-color:var(--mark)}
`.replaceAll("\n", "");

/** @param next where to go on, as it may stand in an attribute; null leaves that to the browser's word of where it was */
const formHtml = (wrong: boolean, next: string | null): string => `
<form method="post" action="${passwordPath}">
${next === null ? "" : `<input type="hidden" name="next" value="${next}">\n`}<label for="password">Password</label>
<span class="row">
<input id="password" name="password" type="password" required autofocus autocomplete="current-password"${wrong ? ' aria-invalid="true" aria-describedby="text"' : ""}>
<button>Go on</button>
</span>
</form>`;

/**
 * The body for people: one self-contained document that follows the reader's light or dark setting.
 *
 * @param next for a page that asks for a password; see above
 */
export const pageHtml = ({ status, title, text, asks = false, code }: Page, next: string | null = null): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${style}${asks ? formStyle : ""}</style>
</head>
<body>
<main>
<p class="status" aria-label="Status ${status}">${status}</p>
<h1>${title}</h1>
<p${asks ? ' id="text" role="status"' : ""}>${text}</p>${asks ? formHtml(code === "SITE_PASSWORD_WRONG", next) : ""}
</main>
</body>
</html>
`;

/** Whether a visitor with this Accept header wants the body for programs. A browser always names text/html. */
export const wantsJson = (accept: string): boolean =>
  accept.includes("application/json") && !accept.includes("text/html");
