import { hostPattern, readyName } from "../names.ts";
import { accessLogger, accessLogOf, logSaid } from "./access-log.ts";
import { isSince } from "./caddy-version.ts";
import { challengeRoute } from "./challenges.ts";
import { edgeHandler, edgeModule } from "./edge-module.ts";
import type { EntranceFiles } from "./entrance-tls.ts";
import { type CaddyRoute, type JsonObject, lists, not, responseHeaders, subroute, unlogged } from "./json.ts";
import { errorRoutes, showPage } from "./page-routes.ts";
import { type InFrontOptions, serverInFront } from "./proxied.ts";
import { noRulesServer } from "./rule-routes.ts";
import { siteRoutes, withoutForwarded } from "./site-routes.ts";
import { hashedFileRoute } from "./static-routes.ts";
import { certificateServer, handshakeLog, type TlsOptions, tlsApp, whereCertificate } from "./tls.ts";

export interface RenderOptions extends TlsOptions, InFrontOptions {
  /** host:port; an empty host is every address. */
  httpListen: string;
  httpsListen: string;
  /** Absolute path of the Unix socket of Caddy's administration. */
  adminSocket: string;
  /** Absolute path of the table of names, best in memory. */
  tableDir: string;
  /** Absolute path of the unpacked bundles. */
  bundlesDir: string;
  /** Absolute path of what of them never changes. */
  immutablesDir: string;
  /** Absolute path of the directory for the access log, best in memory. */
  trafficDir: string;
  /** Absolute path of what CAs are answered, best in memory. */
  challengesDir: string;
  answerTimeoutMs: number;
  /** Whether the access log says who asked and how, for analytics. */
  logsVisits: boolean;
  /** What this edge shows at entrances of nodes; null while no route leads to one. */
  entrance: EntranceFiles | null;
  /** Whether visitors are asked to end their connections: each answer says that it is the last one. */
  closing: boolean;
  /** Whether this Caddy has the module of `edge-module`. */
  hasEdgeModule: boolean;
}

/**
 * Caddy's whole configuration. It names no site: Caddy looks each request's host up in the table of names,
 * so it is loaded once and stays. Equal options give equal values, in equal order.
 */
export const renderConfig = (options: RenderOptions): JsonObject => ({
  admin: adminOf(options.adminSocket),
  logging: {
    logs: {
      default: { level: "WARN", exclude: [requestErrors, accessLogger, handshakeLog.name, handlers] },
      // With the module only handshakes are in it.
      access: accessLogOf(options.trafficDir, options.logsVisits),
      // A site that is down fails at every request; some are told about, not each of them.
      requests: {
        level: "ERROR",
        // Where nobody wants to hear it, Caddy does not put together for each request what it would say of an error.
        include: [options.hasEdgeModule ? edgeModule : requestErrors],
        sampling: { interval: 1_000_000_000, first: 5, thereafter: 1000 },
      },
      handshakes: handshakeLog.log,
    },
  },
  apps: {
    http: httpApp(options),
    ...(options.tls !== "off" && { tls: tlsApp(options) }),
    ...(options.tls === "internal" && { pki: { certificate_authorities: { local: { install_trust: false } } } }),
  },
});

/**
 * What Caddy is started with when it has nothing to resume: its administration and nothing else, so that
 * the router can load the rest. Start it as `caddy run --resume --config <file with this>`, with
 * XDG_CONFIG_HOME and XDG_DATA_HOME set to directories of its own: a Caddy that was killed then comes back
 * with the configuration in force, whether or not the router is there. The socket belongs in a directory
 * that only Caddy and the router may enter.
 */
export const bootConfig = (adminSocket: string): JsonObject => ({ admin: adminOf(adminSocket) });

/** So long Caddy lets go on what is open when it stops, or gets another configuration. */
const graceSeconds = 10;

const requestErrors = "http.log.error";
/** What each of them would say about each request, was it asked for: putting that together costs more than many a handler. */
const handlers = "http.handlers";

const adminOf = (socket: string): JsonObject => ({ listen: `unix/${socket}` });

function httpApp(options: RenderOptions): JsonObject {
  const { httpListen, httpsListen, tls } = options;
  // Beside the administration's: a directory that only Caddy and the router may enter.
  const noRulesSocket = `${options.adminSocket}.rules`;
  const site = {
    ...{ ...options, noRulesSocket },
    heedsNoTransform: isSince(options.caddyVersion, 7),
    flushesEncoded: isSince(options.caddyVersion, 11),
  };
  const routesOf = (scheme: "http" | "https", before: CaddyRoute[]): CaddyRoute[] => {
    const sites = [hashedFileRoute(site.tableDir), lookupRoute(options), ...siteRoutes({ ...site, scheme })];
    const stock = stockRoutes(options, [...before, ...sites]);
    const own = options.hasEdgeModule
      ? [{ handle: [edgeHandler({ ...site, scheme }, { before, otherwise: stock })] }]
      : stock;
    return [...(options.closing ? [lastAnswer] : []), challengeRoute(options.challengesDir), ...own];
  };
  const redirect = redirectHandler(portOf(httpsListen));
  // A name whose certificate is not there yet is served without TLS, and not sent to where nobody answers.
  const toHttps = tls === "acme" ? [whereCertificate(options, redirect)] : [];
  return {
    http_port: portOf(httpListen),
    ...(tls !== "off" && { https_port: portOf(httpsListen) }),
    // What is open when Caddy stops gets this long.
    grace_period: `${graceSeconds}s`,
    servers: {
      http: { listen: [httpListen], ...serverOf(options, routesOf("http", toHttps)) },
      norules: noRulesServer(noRulesSocket),
      ...(tls !== "off" && {
        https: {
          listen: [httpsListen],
          ...serverOf(options, routesOf("https", [])),
          tls_connection_policies: [{}],
          // A certificate is for one host, and so is the connection that it opened.
          strict_sni_host: true,
        },
        certificates: certificateServer(options),
      }),
    },
  };
}

const serverOf = (options: RenderOptions, routes: CaddyRoute[]): JsonObject => ({
  // Nothing may bind a port that is not configured, nor obtain a certificate that nobody asked for.
  automatic_https: { disable: true },
  // Every request is logged, for counting; the module does so itself.
  ...(!options.hasEdgeModule && { logs: {} }),
  // What is said at the beginning of a connection has no place in HTTP/3.
  protocols: options.tls === "acme" && options.inFront.by !== "proxy-protocol" ? ["h1", "h2", "h3"] : ["h1", "h2"],
  ...serverInFront(options.inFront),
  read_header_timeout: "15s",
  idle_timeout: "2m",
  max_header_bytes: 64 * 1024,
  routes,
  errors: { routes: errorRoutes() },
});

/** A Host as the table spells it, with or without a port. */
const hostHeaderPattern = hostPattern.replace(/\$$/, "(?::[0-9]*)?$");

/** `found` end a request whose host has an entry. */
function stockRoutes(options: RenderOptions, found: CaddyRoute[]): CaddyRoute[] {
  const { tableDir, pagesListen, caddyVersion, logsVisits, hasEdgeModule } = options;
  // A newer Caddy counts what it read.
  const logs = !hasEdgeModule && (logsVisits || !isSince(caddyVersion, 7));
  return [
    ...(logs ? [{ handle: [logSaid(logsVisits)] }] : []),
    { match: [{ method: ["CONNECT", "TRACE"] }], handle: showPage("method"), terminal: true },
    {
      match: [not({ header_regexp: { Host: { pattern: hostHeaderPattern } } })],
      handle: [withoutForwarded, otherHostHandler(pagesListen)],
      terminal: true,
    },
    ...found,
    {
      match: [not({ file: { root: tableDir, try_files: [`/${readyName}`] } })],
      handle: showPage("starting"),
      terminal: true,
    },
    // Nobody's: not counted.
    { handle: [unlogged, ...showPage("unknown")] },
  ];
}

/** Over HTTP/2 Caddy makes a GOAWAY of it. What becomes another protocol says something else in that header. */
const lastAnswer: CaddyRoute = {
  match: [not({ header: { Connection: ["*pgrade*"] } })],
  handle: [responseHeaders({ Connection: "close" })],
};

/**
 * Looks the host up. One entry per host; while it changes there are two, and the newer sorts first. Where Caddy can leave
 * it out, it does not look at the file whose name it has just read.
 */
const lookupRoute = ({ tableDir, caddyVersion }: RenderOptions): CaddyRoute => ({
  match: [
    {
      file: {
        root: tableDir,
        try_files: ["/{http.request.host}/*"],
        ...(isSince(caddyVersion, 10) && { try_policy: "first_exist_fallback" }),
      },
    },
  ],
  handle: [],
});

/**
 * A host that is not spelled as the table spells it goes to the router, which redirects to the right
 * spelling if there is such a site. Without the router there is none.
 */
const otherHostHandler = (pagesListen: string): JsonObject =>
  subroute(
    [
      {
        handle: [
          {
            handler: "reverse_proxy",
            upstreams: [{ dial: pagesListen }],
            transport: { protocol: "http", dial_timeout: "500ms", response_header_timeout: "2s", compression: false },
            headers: {
              request: {
                set: lists({ "X-Svc-Reason": "host", "X-Svc-Host": "{http.request.hostport}" }),
                delete: ["Cookie", "Authorization"],
              },
            },
          },
        ],
      },
    ],
    [{ handle: showPage("unknown") }],
  );

const redirectHandler = (httpsPort: number): JsonObject => ({
  handler: "static_response",
  status_code: "308",
  headers: {
    Location: [`https://{http.request.host}${httpsPort === 443 ? "" : `:${httpsPort}`}{http.request.uri}`],
    "Cache-Control": ["no-cache"],
  },
});

const portOf = (listen: string): number => Number(listen.slice(listen.lastIndexOf(":") + 1));
