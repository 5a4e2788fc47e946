import { isIP } from "node:net";
import { dirname, join, resolve } from "node:path";
import { isPrivateListen, privateListenHint } from "@svc/telemetry";
import { endpointListProblem, splitEndpoints } from "@svc/uplink";
import { z } from "zod";
import { isHost } from "./names.ts";
import type { InFront } from "./render/proxied.ts";

/** A setting is missing or wrong. The message names it and says what it should be. */
export class ConfigError extends Error {
  override name = "ConfigError";
}

const listen = z.string().regex(/^[^\s/]*:\d{1,5}$/, "must be host:port");
/** Replicas of control: any of them will do. */
const endpoints = z.string().transform((text, context) => {
  const problem = endpointListProblem(text);
  if (problem !== null) context.addIssue(problem);
  return splitEndpoints(text);
});
const path = z.string().refine((text) => !text.includes("\0"), "must be a path");

const ofLoopback = listen.regex(
  /^(127(\.\d{1,3}){3}|localhost|\[::1\]):/,
  "must be an address of loopback: it is for the Caddy beside it alone",
);

const ranges = z.string().transform((text, context) => {
  const all = text.split(",").map((range) => range.trim());
  const wrong = all.find((range) => !isRange(range));
  if (wrong !== undefined) context.addIssue(`${wrong || "nothing"} is not an address or a network such as 10.1.0.0/24`);
  // Caddy takes an address for a network in some places only.
  return all.map((range) => (range.includes("/") ? range : `${range}/${isIP(range) === 4 ? 32 : 128}`));
});

/** An address, or a network in CIDR notation, but not that of everybody. */
function isRange(text: string): boolean {
  const [address = "", prefix, ...more] = text.split("/");
  const version = isIP(address);
  if (version === 0 || more.length > 0 || address.includes("%")) return false;
  return prefix === undefined || (/^[1-9]\d{0,2}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128));
}

/** Every setting of the router, with its default. */
export const settings = z.object({
  /** Identity, last good route table, bundles of static sites. Never shared by two routers. */
  SVC_ROUTER_DIR: path.default("/var/lib/svc/router"),
  /** Table of names that Caddy looks hosts up in. Best in memory; nothing is lost with it. */
  SVC_ROUTER_TABLE_DIR: path.default("/run/svc/table"),
  /** Where Caddy writes its access log, which is counted; in memory. Unless set: `traffic` beside the table. */
  SVC_ROUTER_TRAFFIC_DIR: path.optional(),
  /** How often requests are counted and told to control. */
  SVC_TRAFFIC_SECONDS: z.coerce.number().min(0.05).max(300).default(10),
  /** on: also says what visitors of sites look at, by docs/privacy.md. opt-out: not of those who ask not to be tracked. */
  SVC_ANALYTICS: z.enum(["on", "opt-out", "off"]).default("on"),
  /** Which countries addresses are of: a file in MaxMind's format (.mmdb). No countries when absent. */
  SVC_GEO_DB: path.optional(),
  SVC_ENROLL_URL: endpoints.prefault("https://127.0.0.1:7444"),
  SVC_LINK_URL: endpoints.prefault("https://127.0.0.1:7443"),
  /** Where operators' tools ask for metrics: a private address. Nowhere when absent. */
  SVC_METRICS_LISTEN: listen.refine(isPrivateListen, privateListenHint).optional(),
  /** Read while the edge has no identity, and again when its certificate is over. */
  SVC_BOOTSTRAP_TOKEN_FILE: z.string().optional(),
  /** Where Caddy listens for visitors; an empty host is every address. */
  SVC_EDGE_HTTP: listen.default("127.0.0.1:8080"),
  SVC_EDGE_HTTPS: listen.default("127.0.0.1:8443"),
  /** Who stands in front of this edge and says where visitors come from; needs SVC_EDGE_PROXY_RANGES, and Caddy 2.8. */
  SVC_EDGE_PROXY: z.enum(["none", "proxy-protocol", "header"]).default("none"),
  /** Addresses and networks (CIDR) of what stands there: nobody else is believed. */
  SVC_EDGE_PROXY_RANGES: ranges.optional(),
  /** Where whoever sends visitors to edges asks for `GET /_svc/edge`: a private address. Nowhere when absent. */
  SVC_EDGE_HEALTH_LISTEN: listen.refine(isPrivateListen, privateListenHint).optional(),
  /** In a drain: how long that address says no before connections are closed. */
  SVC_EDGE_DRAIN_SECONDS: z.coerce.number().min(0).max(3600).default(90),
  SVC_EDGE_TLS: z.enum(["internal", "acme", "off"]).default("internal"),
  /** Unix socket of Caddy's administration. */
  SVC_CADDY_ADMIN: path.default("/run/svc/caddy.sock"),
  /** Asked for its version and its modules; Caddy itself is started by somebody else. */
  SVC_CADDY_BINARY: z.string().default("caddy"),
  /** The router's own server, for Caddy. On loopback. */
  SVC_ROUTER_LISTEN: ofLoopback.default("127.0.0.1:7480"),
  /** Where Caddy asks itself for certificates. On loopback: who reaches it and knows its path gets private keys. */
  SVC_EDGE_CERTIFICATES_LISTEN: ofLoopback.default("127.0.0.1:7481"),
  SVC_CONTENT_DOMAIN: z
    .string()
    .refine((text) => isHost(text), "must be a host name in lower case")
    .default("svc.localhost"),
  SVC_LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
});

export interface Config {
  dir: string;
  tableDir: string;
  trafficDir: string;
  trafficEveryMs: number;
  analytics: "on" | "opt-out" | "off";
  geoDatabase: string | null;
  enrollUrls: string[];
  linkUrls: string[];
  metricsListen: { host: string; port: number } | null;
  bootstrapTokenFile: string | null;
  /** host:port, as given. */
  httpListen: string;
  httpsListen: string;
  inFront: InFront;
  healthListen: { host: string; port: number } | null;
  /** How long health says that this edge leaves before connections are closed. */
  drainWaitMs: number;
  tls: "internal" | "acme" | "off";
  /** host:port where Caddy asks itself for certificates. */
  certificatesListen: string;
  /** Absolute paths beside the table, of what Caddy shows and answers. */
  certificatesDir: string;
  challengesDir: string;
  adminSocket: string;
  caddyBinary: string;
  pagesListen: { host: string; port: number };
  contentDomain: string;
  logLevel: string;
}

/** Longest path that the kernel takes for a Unix socket. */
const socketPathMax = 107;

/** Reads and checks every setting. Throws `ConfigError` naming the first that is wrong. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.keys(settings.shape).filter((key) => env[key] !== undefined && env[key] !== "");
  const result = settings.safeParse(Object.fromEntries(given.map((key) => [key, env[key]])));
  if (!result.success) {
    const [issue] = result.error.issues;
    throw new ConfigError(`${String(issue?.path[0])}: ${issue?.message}`);
  }
  const s = result.data;
  const adminSocket = resolve(s.SVC_CADDY_ADMIN);
  if (Buffer.byteLength(adminSocket) > socketPathMax) {
    throw new ConfigError(`SVC_CADDY_ADMIN: must be at most ${socketPathMax} bytes long`);
  }
  const besides = dirname(resolve(s.SVC_ROUTER_TABLE_DIR));
  return {
    dir: plainPath(s.SVC_ROUTER_DIR, "SVC_ROUTER_DIR"),
    tableDir: plainPath(s.SVC_ROUTER_TABLE_DIR, "SVC_ROUTER_TABLE_DIR"),
    trafficDir: plainPath(s.SVC_ROUTER_TRAFFIC_DIR ?? join(besides, "traffic"), "SVC_ROUTER_TRAFFIC_DIR"),
    trafficEveryMs: Math.round(s.SVC_TRAFFIC_SECONDS * 1000),
    analytics: s.SVC_ANALYTICS,
    geoDatabase: s.SVC_GEO_DB ?? null,
    enrollUrls: s.SVC_ENROLL_URL,
    linkUrls: s.SVC_LINK_URL,
    metricsListen: s.SVC_METRICS_LISTEN === undefined ? null : listenAddress(s.SVC_METRICS_LISTEN),
    bootstrapTokenFile: s.SVC_BOOTSTRAP_TOKEN_FILE ?? null,
    httpListen: s.SVC_EDGE_HTTP,
    httpsListen: s.SVC_EDGE_HTTPS,
    inFront: inFrontOf(s.SVC_EDGE_PROXY, s.SVC_EDGE_PROXY_RANGES),
    healthListen: s.SVC_EDGE_HEALTH_LISTEN === undefined ? null : listenAddress(s.SVC_EDGE_HEALTH_LISTEN),
    drainWaitMs: Math.round(s.SVC_EDGE_DRAIN_SECONDS * 1000),
    tls: s.SVC_EDGE_TLS,
    certificatesListen: s.SVC_EDGE_CERTIFICATES_LISTEN,
    certificatesDir: plainPath(join(besides, "certificates"), "SVC_ROUTER_TABLE_DIR"),
    challengesDir: plainPath(join(besides, "challenges"), "SVC_ROUTER_TABLE_DIR"),
    adminSocket,
    caddyBinary: s.SVC_CADDY_BINARY,
    pagesListen: listenAddress(s.SVC_ROUTER_LISTEN),
    contentDomain: s.SVC_CONTENT_DOMAIN,
    logLevel: s.SVC_LOG_LEVEL,
  };
}

/** Whoever is believed without a range could be anybody, and what runs on nodes has private addresses, too. */
function inFrontOf(by: InFront["by"], given: string[] | undefined): InFront {
  if (by === "none") {
    if (given !== undefined) throw new ConfigError(`SVC_EDGE_PROXY_RANGES: means nothing with SVC_EDGE_PROXY=none`);
    return { by };
  }
  if (given === undefined)
    throw new ConfigError(`SVC_EDGE_PROXY_RANGES: must say who is believed with SVC_EDGE_PROXY=${by}`);
  return { by, ranges: given };
}

/** These become patterns and placeholders in Caddy's configuration, where such characters mean something. */
function plainPath(text: string, name: string): string {
  const absolute = resolve(text);
  if (/[[\]*?{}\\]/.test(absolute)) throw new ConfigError(`${name}: must not hold any of [ ] * ? { } \\`);
  return absolute;
}

function listenAddress(text: string): { host: string; port: number } {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(text.slice(at + 1)) };
}
