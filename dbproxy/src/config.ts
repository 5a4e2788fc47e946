import { resolve } from "node:path";
import { databasePorts } from "@svc/proto/database";
import { isPrivateListen, privateListenHint } from "@svc/telemetry";
import { z } from "zod";

/** A setting is missing or wrong. The message names it and says what it should be. */
export class ConfigError extends Error {
  override name = "ConfigError";
}

const listen = z.string().regex(/^[^\s/]*:\d{1,5}$/, "must be host:port");
const path = z.string().refine((text) => !text.includes("\0"), "must be a path");
const port = z.coerce.number().int().min(1024).max(65_535);

/** Every setting of the database proxy, with its default. */
export const settings = z.object({
  /** Table, state, certificate. The agent of this machine writes the first and the last. */
  SVC_DBPROXY_DIR: path.default("/var/lib/svc/dbproxy"),
  /** Where it listens on each bridge, by engine. */
  SVC_DBPROXY_POSTGRES_PORT: port.default(databasePorts.postgres),
  SVC_DBPROXY_MARIADB_PORT: port.default(databasePorts.mariadb),
  /** Where the proxies of other machines reach this one. Nowhere when absent: on the only machine there are none. */
  SVC_DBPROXY_PEER_LISTEN: listen.optional(),
  /** For a server or another machine's proxy to be reached, and from then to its first word. */
  SVC_DBPROXY_SERVER_SECONDS: z.coerce.number().min(0.1).max(60).default(3),
  /** How long connections that are there may go on once the process is asked to end. */
  SVC_DBPROXY_DRAIN_SECONDS: z.coerce.number().min(0).max(86_400).default(600),
  /** Where operators' tools ask for metrics: a private address. Nowhere when absent. */
  SVC_METRICS_LISTEN: listen.refine(isPrivateListen, privateListenHint).optional(),
  SVC_LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
});

export interface Config {
  dir: string;
  ports: { postgres: number; mariadb: number };
  peerListen: { host: string; port: number } | null;
  serverMs: number;
  drainMs: number;
  metricsListen: { host: string; port: number } | null;
  logLevel: string;
}

/** Reads and checks every setting. Throws `ConfigError` naming the first that is wrong. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.keys(settings.shape).filter((key) => env[key] !== undefined && env[key] !== "");
  const result = settings.safeParse(Object.fromEntries(given.map((key) => [key, env[key]])));
  if (!result.success) {
    const [issue] = result.error.issues;
    throw new ConfigError(`${String(issue?.path[0])}: ${issue?.message}`);
  }
  const s = result.data;
  const ports = { postgres: s.SVC_DBPROXY_POSTGRES_PORT, mariadb: s.SVC_DBPROXY_MARIADB_PORT };
  if (ports.postgres === ports.mariadb)
    throw new ConfigError("SVC_DBPROXY_MARIADB_PORT: must be another than Postgres's");
  return {
    dir: resolve(s.SVC_DBPROXY_DIR),
    ports,
    peerListen: s.SVC_DBPROXY_PEER_LISTEN === undefined ? null : listenAddress(s.SVC_DBPROXY_PEER_LISTEN),
    serverMs: Math.round(s.SVC_DBPROXY_SERVER_SECONDS * 1000),
    drainMs: Math.round(s.SVC_DBPROXY_DRAIN_SECONDS * 1000),
    metricsListen: s.SVC_METRICS_LISTEN === undefined ? null : listenAddress(s.SVC_METRICS_LISTEN),
    logLevel: s.SVC_LOG_LEVEL,
  };
}

function listenAddress(text: string): { host: string; port: number } {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(text.slice(at + 1)) };
}
