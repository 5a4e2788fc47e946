import { always, type CaddyRoute, equals, type JsonObject, lists, not, setVars, subroute } from "./json.ts";
import { missingHandlers, type StaticSite, staticHandler } from "./static-routes.ts";

/** What the router answered. */
const said = (header: string): string => `{http.reverse_proxy.header.${header}}`;
/** What is not there is nothing to some Caddys, and this to others. */
const isSaid = (header: string): JsonObject => not(equals(said(header), "", "<nil>"));

/**
 * A static site with rules of its own: redirects, and headers of paths. The router says what becomes of each request, and
 * Caddy serves the files. Without the router they are served without the rules.
 *
 * @param bundle name of the site's bundle, as a placeholder
 * @param site with the files
 */
export const ruledHandler = (bundle: string, site: StaticSite, options: RuleOptions): JsonObject =>
  subroute([
    { match: [{ method: ["GET", "HEAD"] }], handle: [askRouter(bundle, options)] },
    { match: [equals("svc_missing", "yes")], handle: missingHandlers(site.root), terminal: true },
    { handle: [staticHandler(site, options.tableDir)] },
  ]);

export interface RuleOptions {
  /** Absolute path of the table of names. */
  tableDir: string;
  /** host:port of the router's own small server. */
  pagesListen: string;
  /** Absolute path of the Unix socket of `noRulesServer`. */
  noRulesSocket: string;
}

/** Answers in the place of the router, while that does not: there are no rules. */
export const noRulesServer = (socket: string): JsonObject => ({
  listen: [`unix/${socket}`],
  automatic_https: { disable: true },
  protocols: ["h1"],
  routes: [{ handle: [{ handler: "static_response", status_code: 204 }] }],
});

const routeFor = (match: JsonObject, ...handle: JsonObject[]): CaddyRoute => ({ match: [match], handle });

/** Before the file: what the router said of it. */
const servedRoutes: CaddyRoute[] = [
  {
    handle: [
      setVars({ svc_missing: said("X-Svc-Missing") }),
      {
        handler: "copy_response_headers",
        exclude: ["Connection", "Keep-Alive", "Date", "Content-Length", "X-Svc-Path", "X-Svc-Missing"],
      },
    ],
  },
  ...["Cache-Control", "Content-Type"].map((name) =>
    // Whoever serves the file sets its own.
    routeFor(isSaid(name), { handler: "headers", response: { deferred: true, set: lists({ [name]: said(name) }) } }),
  ),
  routeFor(isSaid("X-Svc-Path"), {
    handler: "rewrite",
    // Of the encoded path in every version, which `uri` is not.
    path_regexp: [{ find: "^.*$", replace: said("X-Svc-Path") }],
  }),
];

const askRouter = (bundle: string, { pagesListen, noRulesSocket }: RuleOptions): JsonObject => ({
  handler: "reverse_proxy",
  upstreams: [{ dial: pagesListen }, { dial: `unix/${noRulesSocket}` }],
  // Whatever was asked for, this is a question: one that is not answered soon is asked elsewhere.
  load_balancing: {
    ...{ selection_policy: { policy: "first" }, try_duration: "5s", try_interval: "10ms" },
    retry_match: [always],
  },
  // A router that is away is asked once a second.
  health_checks: { passive: { fail_duration: "1s", max_fails: 1 } },
  transport: { protocol: "http", dial_timeout: "250ms", response_header_timeout: "2s", compression: false },
  rewrite: { method: "GET" },
  headers: {
    request: {
      set: lists({ "X-Svc-Reason": "rules", "X-Svc-Host": "{http.request.hostport}", "X-Svc-Bundle": bundle }),
      delete: ["Cookie", "Authorization"],
    },
  },
  // What it answers else is the visitor's: a redirect.
  handle_response: [{ match: { status_code: [204, 5] }, routes: servedRoutes }],
});
