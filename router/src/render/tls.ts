import { handshakeMark } from "../traffic/line.ts";
import { permissionModule } from "./caddy-version.ts";
import { type CaddyRoute, type JsonObject, matches, subroute, unlogged } from "./json.ts";

export interface TlsOptions {
  /** What `caddy version` says, such as 2.6.2 or v2.11.4. */
  caddyVersion: string;
  /** internal: content hosts have certificates of a CA of Caddy's own. acme: all have those that control got. */
  tls: "internal" | "acme" | "off";
  /** host:port of the router's own small server. */
  pagesListen: string;
  contentDomain: string;
  /** host:port on loopback where Caddy asks itself for certificates. */
  certificatesListen: string;
  /** Absolute path of the certificates, best in memory. */
  certificatesDir: string;
  /** Secret part of the address at which they are asked for. */
  certificatesPath: string;
}

const loggerOfHandshakes = "tls.handshake";
/** Whoever dials with any name makes such a line: scanners would fill the disk. */
export const handshakeLog = {
  name: loggerOfHandshakes,
  log: {
    level: "ERROR",
    include: [loggerOfHandshakes],
    sampling: { interval: 60_000_000_000, first: 5, thereafter: 100_000 },
  } satisfies JsonObject,
};

/**
 * Caddy asks a server of its own for the certificate of each full handshake: a file that is there is shown, one that is
 * not there is none. So nothing is loaded when certificates change, none is kept in memory, and nobody else has to run.
 *
 * Whoever reaches this server gets private keys: it is on loopback, and its path is a secret that stands in Caddy's
 * configuration only.
 */
export const certificateServer = (options: TlsOptions): JsonObject => ({
  listen: [options.certificatesListen],
  automatic_https: { disable: true },
  protocols: ["h1"],
  read_header_timeout: "2s",
  idle_timeout: "2m",
  // Caddy tells nothing of handshakes in another way: each with a certificate of control's is a line of the access log.
  logs: {},
  routes: [
    {
      match: [
        {
          path: [`/${options.certificatesPath}`],
          ...matches("{http.request.uri.query.server_name}", servedPattern, "name"),
        },
      ],
      handle: [subroute(certificateRoutes(options))],
      terminal: true,
    },
    // Unlogged: whoever dials with names that nobody has must not push lines of visitors out.
    // A missing answer must never be 204: then Caddy would make a certificate itself, for whatever name.
    { handle: [unlogged, { handler: "static_response", status_code: 404 }] },
  ],
});

const logHandshake: JsonObject = {
  handler: "map",
  source: handshakeMark,
  destinations: ["{http.auth.user.id}"],
  defaults: [handshakeMark],
};

/** Group 2 is what comes behind the first label. */
const servedPattern = "^([a-z0-9-]+)((?:\\.[a-z0-9-]+)+)$";
/** The very name, or the wildcard that covers it. */
const tryFiles = ["/{http.regexp.name.0}.pem", "/_{http.regexp.name.2}.pem"];

function certificateRoutes({ tls, certificatesDir, contentDomain }: TlsOptions): CaddyRoute[] {
  const found: CaddyRoute = {
    match: [{ file: { root: certificatesDir, try_files: tryFiles } }],
    handle: [
      logHandshake,
      { handler: "rewrite", uri: "{http.matchers.file.relative}" },
      { handler: "file_server", root: certificatesDir },
    ],
    terminal: true,
  };
  // No content: Caddy makes one of its own CA, once the router has said that there is such a host.
  const own: CaddyRoute = {
    match: [matches("{http.regexp.name.0}", `\\.${contentDomain.replaceAll(".", "\\.")}$`)],
    handle: [unlogged, { handler: "static_response", status_code: 204 }],
    terminal: true,
  };
  return [
    found,
    ...(tls === "internal" ? [own] : []),
    { handle: [unlogged, { handler: "static_response", status_code: 404 }], terminal: true },
  ];
}

export function tlsApp(options: TlsOptions): JsonObject {
  const { caddyVersion, pagesListen, tls } = options;
  const endpoint = `http://${pagesListen}/ask`;
  const url = `http://${options.certificatesListen}/${options.certificatesPath}`;
  const isOwn = tls === "internal";
  return {
    automation: {
      policies: [
        {
          get_certificate: [{ via: "http", url }],
          issuers: [{ module: "internal" }],
          ...(isOwn && { on_demand: true }),
        },
      ],
      // Without it, 2.6 would make a certificate for any name below the content domain. From 2.8 on what it asks for
      // certificates makes all of it "on demand", and then it wants to ask for leave, too.
      ...(isOwn && {
        on_demand: permissionModule(caddyVersion) ? { permission: { module: "http", endpoint } } : { ask: endpoint },
      }),
    },
  };
}

/** Ends a request for a host that has a certificate with `handler`, which answers. */
export const whereCertificate = (
  { certificatesDir }: Pick<TlsOptions, "certificatesDir">,
  handler: JsonObject,
): CaddyRoute => ({
  match: [matches("{http.request.host}", servedPattern, "name")],
  handle: [subroute([{ match: [{ file: { root: certificatesDir, try_files: tryFiles } }], handle: [handler] }])],
});
