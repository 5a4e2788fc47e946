import { gateDirName } from "../names.ts";
import { errorParameter, passwordPath } from "../password/next.ts";
import { cookieName, tokenPattern } from "../password/token.ts";
import { type CaddyRoute, equals, inOrder, type JsonObject, lists, matches, not, setVars, subroute } from "./json.ts";
import { showPage } from "./page-routes.ts";
import { type InFrontOptions, visitorAddress } from "./proxied.ts";

export interface GateOptions extends InFrontOptions {
  /** Absolute path of the table of names. */
  tableDir: string;
  /** host:port of the router's own small server. */
  pagesListen: string;
  /** What this server speaks. */
  scheme: "http" | "https";
}

const gate = "{http.regexp.entry.1}";
const cookie = `{http.request.cookie.${cookieName}}`;
const passed = equals("svc_gate", "passed");
const atPasswordPath = equals("{http.request.uri.path}", passwordPath);

/**
 * What comes before the site itself: whoever asks for a site with a password shows the cookie, or ends here, whatever
 * the method, the path and the kind of site. Afterwards the address of the password is nobody's page.
 */
export const gateRoutes = (options: GateOptions, removeForwarded: JsonObject, visitedPattern: string): CaddyRoute[] => [
  guardRoute(options, removeForwarded),
  {
    match: [{ ...atPasswordPath, ...matches("{http.request.hostport}", visitedPattern, "visited") }],
    handle: [
      {
        handler: "static_response",
        status_code: "303",
        headers: {
          Location: [`${options.scheme}://{http.request.host}{http.regexp.visited.1}/`],
          "Cache-Control": ["no-store"],
        },
      },
    ],
  },
];

/** The same where nobody asks for the address of the password. */
export const guardRoute = (options: GateOptions, removeForwarded: JsonObject): CaddyRoute => ({
  match: [not(equals(gate, ""))],
  handle: [subroute(guardRoutes(options, removeForwarded))],
});

const guardRoutes = (options: GateOptions, removeForwarded: JsonObject): CaddyRoute[] => [
  { match: [{ method: ["POST"], ...atPasswordPath }], handle: [removeForwarded, bringPassword(options)] },
  ...cookieRoutes(options),
  {
    match: [not(passed)],
    handle: [
      subroute([
        { match: [{ query: { [errorParameter]: ["1"] } }], handle: showPage("passwordWrong") },
        { handle: showPage("password") },
      ]),
    ],
  },
];

/**
 * For whoever shows the cookie of the gate, the site as `gateRoutes` leaves it to what comes behind them: without that
 * cookie, and private. Everybody else is untouched.
 */
const cookieRoutes = ({ tableDir }: GateOptions, more?: JsonObject): CaddyRoute[] => {
  const shown: JsonObject = inOrder(
    // What could not be a value is not looked up: the name of a file is made of it.
    matches(cookie, tokenPattern),
    { file: { root: `${tableDir}/${gateDirName}`, try_files: [`/${gate}/${cookie}`] } },
  );
  return [
    {
      match: [more === undefined ? shown : inOrder(more, shown)],
      handle: [setVars({ svc_gate: "passed" }), ...inside],
    },
    { match: [inOrder(passed, noCookieLeft)], handle: [withoutEmptyCookie] },
  ];
};

/** What comes before the site for whoever showed the cookie of its gate. */
export const insideRoutes = (): CaddyRoute[] => [
  { handle: inside },
  { match: [noCookieLeft], handle: [withoutEmptyCookie] },
];

/**
 * The same for entries that `matcher` matches, without a list of routes of its own.
 *
 * @returns the routes, and what matches behind them for whoever passed
 */
export const passedRoutes = (
  options: GateOptions,
  matcher: JsonObject,
): { routes: CaddyRoute[]; matcher: JsonObject } => ({
  routes: cookieRoutes(options, matcher),
  matcher: passed,
});

/** The router's to check. Without it nobody gets in who is not in already. */
const bringPassword = ({ pagesListen, inFront }: GateOptions): JsonObject =>
  subroute(
    [
      {
        handle: [
          { handler: "request_body", max_size: 32 * 1024 },
          {
            handler: "reverse_proxy",
            upstreams: [{ dial: pagesListen }],
            transport: { protocol: "http", dial_timeout: "500ms", response_header_timeout: "10s", compression: false },
            headers: {
              request: {
                set: lists({
                  "X-Svc-Reason": "password",
                  "X-Svc-Host": "{http.request.hostport}",
                  "X-Real-Ip": visitorAddress(inFront),
                }),
                delete: ["Cookie", "Authorization"],
              },
            },
          },
        ],
      },
    ],
    [{ handle: showPage("passwordUnchecked") }],
  );

/** The site never sees what opens it, in whatever capitals: Caddy does not tell them apart either. */
const withoutCookie: JsonObject = {
  handler: "headers",
  request: {
    replace: {
      Cookie: [
        { search_regexp: `(?i)(^|;)\\s*${cookieName}\\s*=[^;]*`, replace: "" },
        { search_regexp: "^[;\\s]+", replace: "" },
      ],
    },
  },
};

/** Without a word about it, a cache may keep an answer as it sees fit. */
const privateByDefault: JsonObject = {
  handler: "headers",
  response: {
    deferred: true,
    require: { headers: { "Cache-Control": null } },
    set: lists({ "Cache-Control": "private" }),
  },
};

/**
 * Whatever the site says, no cache that visitors share may keep its answers: it would give them to those who are not in.
 * `private` alone is put before the rest; with a value it would be about single headers.
 */
const privateOnly: JsonObject = {
  handler: "headers",
  response: {
    deferred: true,
    replace: {
      "Cache-Control": [
        { search_regexp: "\\s*,\\s*", replace: ", " },
        {
          search_regexp: '(?i)(?:^|\\s)(?:public|private|s-maxage)(?:\\s*=\\s*(?:"[^"]*"|[^",\\s]*))?\\s*(?:,|$)',
          replace: "",
        },
        { search_regexp: "^\\s*", replace: "private, " },
        { search_regexp: "[,\\s]+$", replace: "" },
      ],
    },
    // Orders for the caches of hosters and proxies, which they heed before the rest.
    delete: ["*cdn-cache-control", "surrogate-control", "edge-control", "x-accel-expires"],
  },
};

const inside = [withoutCookie, privateByDefault, privateOnly];

const noCookieLeft = equals("{http.request.header.Cookie}", "");
const withoutEmptyCookie: JsonObject = { handler: "headers", request: { delete: ["Cookie"] } };
