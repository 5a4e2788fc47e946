import {
  entryPattern,
  openAppPattern,
  openEntrancePattern,
  openFilesPattern,
  toldPattern,
  untoldPattern,
  upstreamsMax,
  upstreamsPattern,
} from "../names.ts";
import { passwordPath } from "../password/next.ts";
import { type EntranceFiles, entranceTls } from "./entrance-tls.ts";
import { type GateOptions, gateRoutes, guardRoute, passedRoutes } from "./gate-routes.ts";
import {
  always,
  type CaddyRoute,
  equals,
  inOrder,
  type JsonObject,
  lists,
  matches,
  never,
  not,
  responseHeaders,
  subroute,
} from "./json.ts";
import { showPage } from "./page-routes.ts";
import { forwardedFor } from "./proxied.ts";
import { type RuleOptions, ruledHandler } from "./rule-routes.ts";
import { type StaticSite, staticHandler, staticRoutes } from "./static-routes.ts";

const entry = "{http.matchers.file.relative}";
const kind = "{http.regexp.entry.2}";
const argument = "{http.regexp.entry.3}";

export interface SiteOptions extends GateOptions, RuleOptions {
  /** Absolute path of the unpacked bundles. */
  bundlesDir: string;
  /** Absolute path of what of them never changes. */
  immutablesDir: string;
  /** Domain under which tenants get their names. */
  contentDomain: string;
  /** How long an app may take to begin its answer. */
  answerTimeoutMs: number;
  /** Whether Caddy leaves answers uncompressed that ask for it. */
  heedsNoTransform: boolean;
  /** Whether Caddy passes on a part of a compressed answer when the app sends it; older ones keep it until the end. */
  flushesEncoded: boolean;
  /** What this edge shows at entrances; null while no route leads to one. */
  entrance: EntranceFiles | null;
}

/**
 * Serve what the entry found in the table of names says. Caddy puts a list of routes together once where it is the
 * server's own, and for each request where it is one within: so what is asked for most stands here, open apps with one
 * upstream first, and all the rest in one list behind it.
 */
export function siteRoutes(options: SiteOptions): CaddyRoute[] {
  const open = { ...filesOf("{http.regexp.files.2}", options), fallsBack: equals("{http.regexp.files.1}", "f") };
  const passed = passedRoutes(options, equals(kind, "p1"));
  return [
    // The address of the password is nobody's page.
    {
      match: [inOrder(equals("{http.request.uri.path}", passwordPath), matches(entry, untoldPattern, "entry"))],
      handle: [subroute(gateRoutes(options, withoutForwarded, visitedPattern))],
      terminal: true,
    },
    {
      match: [matches(entry, openAppPattern, "app")],
      handle: proxyHandlers(["{http.regexp.app.1}"], options, null),
      terminal: true,
    },
    ...(options.entrance === null
      ? []
      : [
          {
            match: [matches(entry, openEntrancePattern, "app")],
            handle: proxyHandlers(["{http.regexp.app.1}"], options, options.entrance),
            terminal: true,
          },
        ]),
    {
      match: [matches(entry, openFilesPattern, "files")],
      handle: [staticHandler(open, options.tableDir)],
      terminal: true,
    },
    { match: [matches(entry, entryPattern, "entry")], handle: [{ handler: "vars", svc_entry: "found" }] },
    ...passed.routes,
    { match: [passed.matcher], handle: proxyHandlers([argument], options, null), terminal: true },
    {
      match: [equals("svc_entry", "found")],
      handle: [
        subroute([
          guardRoute(options, withoutForwarded),
          ...kindRoutes(options),
          // Last, and not in the list itself: the others are not to pay for it.
          { handle: [subroute([...tellingRoutes(options), failed])] },
        ]),
      ],
      terminal: true,
    },
  ];
}

const filesOf = (bundle: string, { bundlesDir, immutablesDir }: SiteOptions): Omit<StaticSite, "fallsBack"> => ({
  root: `${bundlesDir}/${bundle}`,
  immutableRoot: `${immutablesDir}/${bundle}`,
});

const failed: CaddyRoute = { handle: showPage("failed") };

/** Serve an entry whose host tells browsers over TLS to use nothing else, whatever was asked. */
const tellingRoutes = (options: SiteOptions): CaddyRoute[] => [
  // What is said without TLS browsers must not believe.
  ...(options.scheme === "https" ? [tellRoute("h", ""), tellRoute("i", "; includeSubDomains")] : []),
  {
    match: [inOrder(matches(kind, "^[hi][0-9]+$"), matches(argument, toldPattern, "entry"))],
    handle: [subroute([...gateRoutes(options, withoutForwarded, visitedPattern), ...kindRoutes(options), failed])],
    terminal: true,
  },
];

const tellRoute = (first: string, more: string): CaddyRoute => ({
  match: [matches(kind, `^${first}([0-9]+)$`, "told")],
  handle: tell(`max-age={http.regexp.told.1}${more}`),
});

/** At once, so that pages of the platform say it, too; and again at the end, in the place of what an app says. */
const tell = (value: string): JsonObject[] => [
  responseHeaders({ "Strict-Transport-Security": value }),
  { handler: "headers", response: { deferred: true, set: lists({ "Strict-Transport-Security": value }) } },
];

/** The frequent kinds first: the list is tried in order. Exactly one matches, and each ends the request. */
function kindRoutes(options: SiteOptions): CaddyRoute[] {
  const proxyRoutes = (entrance: EntranceFiles | null) =>
    Array.from({ length: upstreamsMax }, (_, index) => proxyRoute(index + 1, options, entrance));
  const [single, ...several] = proxyRoutes(null);
  return [
    ...(single === undefined ? [] : [single]),
    {
      match: [equals(kind, "s", "f")],
      handle: [staticHandler({ ...filesOf(argument, options), fallsBack: equals(kind, "f") }, options.tableDir)],
    },
    ...several,
    {
      match: [equals(kind, "s1", "f1")],
      handle: [ruledHandler(argument, { ...filesOf(argument, options), fallsBack: equals(kind, "f1") }, options)],
    },
    ...(options.entrance === null ? [] : proxyRoutes(options.entrance)),
    { match: [equals(kind, "x")], handle: [subroute(platformPageRoutes)] },
    {
      match: [{ ...equals(kind, "r"), ...matches("{http.request.hostport}", visitedPattern, "visited") }],
      handle: [redirectHandler(options)],
    },
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

const proxyRoute = (upstreams: number, options: SiteOptions, entrance: EntranceFiles | null): CaddyRoute => ({
  match: [
    {
      ...equals(kind, `${entrance === null ? "p" : "t"}${upstreams}`),
      ...(upstreams > 1 && matches(argument, upstreamsPattern(upstreams), "upstream")),
    },
  ],
  handle: proxyHandlers(
    upstreams === 1
      ? [argument]
      : Array.from({ length: upstreams }, (_, index) => `{http.regexp.upstream.${index + 1}}`),
    options,
    entrance,
  ),
});

/**
 * @param addresses of the upstreams, as placeholders
 * @param entrance null where they are no entrances
 */
const proxyHandlers = (
  addresses: readonly string[],
  options: SiteOptions,
  entrance: EntranceFiles | null,
): JsonObject[] => [withoutForwarded, ...toUpstreams(addresses, options, entrance)];

/** The same for requests that nothing was said in which only a proxy may say. */
const toUpstreams = (
  addresses: readonly string[],
  options: SiteOptions,
  entrance: EntranceFiles | null,
): JsonObject[] => {
  const proxy = proxyHandler(addresses, options, entrance);
  return [compress(options.flushesEncoded), addresses.length === 1 ? proxy : sentAgain(proxy)];
};

/**
 * Whatever an app may have begun to carry out goes to it once; to one of several upstreams a second time where it should change
 * nothing there: its connection may have been ended because its machine is silent. What found no connection has been tried for
 * as long as there is time.
 */
const sentAgain = (proxy: JsonObject): JsonObject =>
  subroute(
    [{ handle: [proxy] }],
    [
      {
        match: [{ method: ["GET"], ...not(matches("{http.error.message}", "^dial ")) }],
        handle: [proxy],
        terminal: true,
      },
      { handle: [{ handler: "error", error: "{http.error.message}", status_code: "{http.error.status_code}" }] },
    ],
  );

/**
 * The routes of kinds of targets that Caddy's own module can find for itself, by the name of the kind: apps, and static sites
 * without rules of their own.
 *
 * @param argumentAt placeholder of the nth argument of the target, from 1 on
 */
export function routesOfKinds(options: SiteOptions, argumentAt: (nth: number) => string): Record<string, CaddyRoute[]> {
  const toApp = (count: number, entrance: EntranceFiles | null): CaddyRoute[] => {
    const addresses = Array.from({ length: count }, (_, index) => argumentAt(index + 1));
    return [{ handle: toUpstreams(addresses, options, entrance) }];
  };
  const counts = Array.from({ length: upstreamsMax }, (_, index) => index + 1);
  const files = filesOf(argumentAt(1), options);
  const { entrance } = options;
  return {
    ...Object.fromEntries(counts.map((count) => [`p${count}`, toApp(count, null)])),
    ...(entrance !== null && Object.fromEntries(counts.map((count) => [`t${count}`, toApp(count, entrance)]))),
    s: staticRoutes({ ...files, fallsBack: never }, options.tableDir),
    f: staticRoutes({ ...files, fallsBack: always }, options.tableDir),
  };
}

/**
 * What only a proxy may say, in any spelling: many frameworks read "_" as "-". Who the visitor is, in words of any cache or
 * hoster; what was asked for before it was rewritten, which some take for what is asked for; and whether the checks of a
 * framework are done. Removed here, before Caddy removes the headers that `Connection` names and then sets its own.
 */
export const forwardedNames = [
  ...["*forwarded*", "x-real*", "x_real*", "x-svc*", "x_svc*", "proxy"],
  ...["*client-ip", "*client_ip", "*clientip", "*connecting-ip*", "*connecting_ip*"],
  ...["*original-url", "*original_url", "x-original-uri", "x_original_uri", "x-original-host", "x_original_host"],
  ...["*rewrite-url", "*rewrite_url"],
  ...["*middleware-subrequest*", "*middleware_subrequest*"],
];

export const withoutForwarded: JsonObject = { handler: "headers", request: { delete: [...forwardedNames] } };

const compressedTypes = [
  ...["text/html*", "text/plain*", "text/css*", "text/javascript*", "text/xml*", "text/csv*", "text/markdown*"],
  ...[
    "application/json*",
    "application/javascript*",
    "application/xml*",
    "application/xhtml+xml*",
    "application/ld+json*",
  ],
  ...["application/manifest+json*", "application/rss+xml*", "application/atom+xml*", "image/svg+xml*"],
];

const encode = (headers: JsonObject): JsonObject => ({
  handler: "encode",
  encodings: { zstd: {}, gzip: {} },
  prefer: ["zstd", "gzip"],
  minimum_length: 1024,
  // Never a part of something: it would be one of other bytes.
  match: { status_code: [200, 201, 203, 4, 5], headers },
});

/**
 * Compresses what an app answers with and did not compress itself: whole answers whose length is known, and pages that are
 * sent while they are made where the encoder hands on what it was given. Events are left alone.
 */
const compress = (flushesEncoded: boolean): JsonObject => {
  const handle = [
    ...(flushesEncoded ? [encode({ "Content-Type": ["text/html*"], "Content-Length": null })] : []),
    encode({ "Content-Type": compressedTypes, "Content-Length": [] }),
  ];
  // Where there is no body its length would be that of nothing, compressed.
  return subroute([{ match: [not({ method: ["HEAD"] })], handle }]);
};

/** Caddy before 2.7 would compress what says that nobody may: it does not where it does not know the length. */
const heedNoTransform: JsonObject = {
  match: { headers: { "Cache-Control": ["*no-transform*"] } },
  routes: [
    {
      handle: [
        { handler: "headers", response: { deferred: true, delete: ["Content-Length"] } },
        { handler: "copy_response" },
      ],
    },
  ],
};

/**
 * Caddy counts failures per configured address, and here that is a placeholder shared by all sites: one
 * broken site would take the others down. So there are no passive health checks; a request that could not
 * be delivered is tried again on another upstream.
 */
function proxyHandler(
  addresses: readonly string[],
  { contentDomain, answerTimeoutMs, heedsNoTransform, inFront }: SiteOptions,
  entrance: EntranceFiles | null,
): JsonObject {
  const isOne = addresses.length === 1;
  return {
    handler: "reverse_proxy",
    upstreams: addresses.map((dial) => ({ dial })),
    load_balancing: {
      selection_policy: { policy: "random" },
      // Of several upstreams: long enough for the router to find that a machine is silent, and to lead around it.
      try_duration: isOne ? "3s" : "5s",
      // With one upstream every try goes to the same place, which has to come back first.
      try_interval: isOne ? "100ms" : "25ms",
      // What an app may have begun to carry out is tried again by nobody, or as `sentAgain` says.
      retry_match: [never],
    },
    transport: {
      protocol: "http",
      // Nodes are near; a machine that is gone costs a visitor so much and not more.
      dial_timeout: "250ms",
      response_header_timeout: `${answerTimeoutMs}ms`,
      // The app decides about compression first, together with the visitor.
      compression: false,
      // Shorter than the idle limit of usual app servers (5 s in Node), so that a request does not meet a
      // connection that the app is just closing.
      keep_alive: { idle_timeout: "1500ms", max_idle_conns_per_host: 64 },
      ...(entrance !== null && entranceTls(entrance)),
    },
    ...(!heedsNoTransform && { handle_response: [heedNoTransform] }),
    headers: {
      request: { set: lists(forwardedFor(inFront)) },
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
