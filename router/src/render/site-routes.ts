import { entryPattern, upstreamsMax, upstreamsPattern } from "../names.ts";
import { type GateOptions, gateRoutes } from "./gate-routes.ts";
import { type CaddyRoute, equals, type JsonObject, matches, subroute } from "./json.ts";
import { showPage } from "./page-routes.ts";
import { staticHandler } from "./static-routes.ts";

const kind = "{http.regexp.entry.2}";
const argument = "{http.regexp.entry.3}";

export interface SiteOptions extends GateOptions {
  /** Absolute path of the unpacked bundles. */
  bundlesDir: string;
  /** Domain under which tenants get their names. */
  contentDomain: string;
  /** How long an app may take to begin its answer. */
  answerTimeoutMs: number;
}

/** Serves what the entry found in the table of names says. */
export const siteHandler = (options: SiteOptions): JsonObject =>
  subroute([
    {
      match: [matches("{http.matchers.file.relative}", entryPattern, "entry")],
      handle: [subroute([...gateRoutes(options, withoutForwarded, visitedPattern), ...kindRoutes(options)])],
    },
    { handle: showPage("failed") },
  ]);

/** The frequent kinds first: the list is tried in order. Exactly one matches, and each ends the request. */
function kindRoutes(options: SiteOptions): CaddyRoute[] {
  const [single, ...several] = Array.from({ length: upstreamsMax }, (_, index) => proxyRoute(index + 1, options));
  return [
    ...(single === undefined ? [] : [single]),
    {
      match: [equals(kind, "s", "f")],
      handle: [staticHandler(`${options.bundlesDir}/${argument}`, equals(kind, "f"))],
    },
    ...several,
    { match: [equals(kind, "x")], handle: [subroute(platformPageRoutes)] },
    {
      match: [{ ...equals(kind, "r"), ...matches("{http.request.hostport}", visitedPattern, "visited") }],
      handle: [redirectHandler(options)],
    },
    { handle: showPage("failed") },
  ];
}

/**
 * Group 1 is the port as the visitor named it, with its colon; empty without one. It must match every host, and
 * nothing else: before the Host, Caddy tries the pattern on a variable of that name, which there is not ("<nil>").
 */
const visitedPattern = "^[a-z0-9.-]+(:[0-9]{1,5}$)?";

const platformPageRoutes: CaddyRoute[] = [
  { match: [equals(argument, "stopped")], handle: showPage("stopped") },
  { match: [equals(argument, "suspended")], handle: showPage("suspended") },
  { match: [equals(argument, "empty")], handle: showPage("empty") },
  { match: [equals(argument, "down")], handle: showPage("down") },
  { handle: showPage("failed") },
];

/**
 * To the same address on another host. The port is the visitor's and not ours: between the two may be something that
 * forwards one to the other.
 */
function redirectHandler({ scheme }: SiteOptions): JsonObject {
  return {
    handler: "static_response",
    status_code: "308",
    headers: {
      Location: [`${scheme}://${argument}{http.regexp.visited.1}{http.request.uri}`],
      "Cache-Control": ["no-cache"],
    },
  };
}

const proxyRoute = (upstreams: number, options: SiteOptions): CaddyRoute => ({
  match: [
    {
      ...equals(kind, `p${upstreams}`),
      ...(upstreams > 1 && matches(argument, upstreamsPattern(upstreams), "upstream")),
    },
  ],
  handle: [withoutForwarded, proxyHandler(upstreams, options)],
});

/**
 * What only a proxy may say, in any spelling: many frameworks read "_" as "-". Removed here, before Caddy
 * removes the headers that `Connection` names and then sets its own.
 */
export const withoutForwarded: JsonObject = {
  handler: "headers",
  request: {
    delete: ["forwarded", "x-forwarded*", "x_forwarded*", "x-real*", "x_real*", "x-svc*", "x_svc*", "proxy"],
  },
};

/**
 * Caddy counts failures per configured address, and here that is a placeholder shared by all sites: one
 * broken site would take the others down. So there are no passive health checks; a request that could not
 * be delivered is tried again on another upstream.
 */
function proxyHandler(upstreams: number, { contentDomain, answerTimeoutMs }: SiteOptions): JsonObject {
  return {
    handler: "reverse_proxy",
    upstreams: Array.from({ length: upstreams }, (_, index) => ({
      dial: upstreams === 1 ? argument : `{http.regexp.upstream.${index + 1}}`,
    })),
    load_balancing: {
      selection_policy: { policy: "random" },
      // Of several upstreams: long enough for the router to find that a machine is silent, and to lead around it.
      try_duration: upstreams === 1 ? "3s" : "5s",
      // With one upstream every try goes to the same place, which has to come back first.
      try_interval: upstreams === 1 ? "100ms" : "5ms",
    },
    transport: {
      protocol: "http",
      // Nodes are near; a machine that is gone costs a visitor so much and not more.
      dial_timeout: "250ms",
      response_header_timeout: `${answerTimeoutMs}ms`,
      // The app decides about compression, together with the visitor.
      compression: false,
      // Shorter than the idle limit of usual app servers (5 s in Node), so that a request does not meet a
      // connection that the app is just closing.
      keep_alive: { idle_timeout: "1500ms", max_idle_conns_per_host: 64 },
    },
    headers: {
      request: { set: { "X-Real-Ip": ["{http.request.remote.host}"] } },
      response: {
        replace: { "Set-Cookie": [{ search_regexp: foreignCookieDomain(contentDomain), replace: "$1" }] },
      },
    },
  };
}

/**
 * Domain attributes that would send a site's cookie to its neighbours: the content domain and what is
 * above it. Without the attribute the cookie stays with the host that set it.
 */
export function foreignCookieDomain(contentDomain: string): string {
  const labels = contentDomain.split(".");
  const domains = labels.map((_, index) => labels.slice(index).join("\\."));
  return `(?i)(?:;[ \\t]*domain[ \\t]*=[ \\t]*"?\\.?(?:${domains.join("|")})\\.?"?[ \\t]*)+(;|$)`;
}
