import { createHash } from "node:crypto";
import { join } from "node:path";

/** Where a platform in `dir` keeps what. */
export interface Layout {
  dir: string;
  info: string;
  /** Names the process that keeps the platform running. */
  supervisor: string;
  runRecords: string;
  logs: string;
  secrets: {
    masterKey: string;
    authSecret: string;
    adminPassword: string;
    postgresPassword: string;
    databasePassword: string;
    registryTokenKey: string;
    registryTokenCertificate: string;
    registryEventsSecret: string;
  };
  tokens: string;
  postgres: string;
  etcd: string;
  /** Of one of several members, counted from 1. */
  etcdMember(number: number): string;
  registry: string;
  control: string;
  outbox: string;
  agent(number: number): string;
  /** Belongs to the user of the database proxy of that node. */
  databaseProxy(number: number): string;
  router: string;
  caddy: string;
  /** Of the CA and the DNS server of `--acme`. */
  acme: string;
  /** In memory, with a short name: holds a Unix socket (whose path may have 107 characters) and the route table. */
  runtime: string;
  caddyAdmin: string;
  routeTable: string;
}

/** `runtimeRoot` is a directory in memory that is ours to write, such as /run. */
export function layoutOf(dir: string, runtimeRoot: string): Layout {
  const runtime = join(runtimeRoot, `svc-${createHash("sha256").update(dir).digest("hex").slice(0, 12)}`);
  const secret = (name: string) => join(dir, "secrets", name);
  return {
    dir,
    info: join(dir, "info.json"),
    supervisor: join(dir, "supervisor.json"),
    runRecords: join(dir, "run"),
    logs: join(dir, "log"),
    secrets: {
      masterKey: secret("master-key"),
      authSecret: secret("auth-secret"),
      adminPassword: secret("admin-password"),
      postgresPassword: secret("postgres-password"),
      databasePassword: secret("database-password"),
      registryTokenKey: secret("registry-token-key.pem"),
      registryTokenCertificate: secret("registry-token-cert.pem"),
      registryEventsSecret: secret("registry-events-secret"),
    },
    tokens: join(dir, "tokens"),
    postgres: join(dir, "postgres"),
    etcd: join(dir, "etcd"),
    etcdMember: (number) => join(dir, "etcd", String(number)),
    registry: join(dir, "registry"),
    control: join(dir, "control"),
    outbox: join(dir, "outbox"),
    agent: (number) => join(dir, "agents", String(number)),
    databaseProxy: (number) => join(dir, "dbproxies", String(number)),
    router: join(dir, "router"),
    caddy: join(dir, "caddy"),
    acme: join(dir, "acme"),
    runtime,
    caddyAdmin: join(runtime, "caddy.sock"),
    routeTable: join(runtime, "table"),
  };
}
