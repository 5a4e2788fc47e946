import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import type { DatabaseEngine } from "@svc/proto";
import type { Argv } from "@svc/runtime/programs";
import { edgeCaddy } from "./edge-caddy/built.ts";
import { environmentOf } from "./environment.ts";
import type { Layout } from "./layout.ts";
import { nodeBinary, repositoryRoot } from "./paths.ts";
import { type Ports, type ReplicaPorts, replicaPorts } from "./ports.ts";
import type { ProgramSpec } from "./program.ts";
import type { LocalRegistry } from "./registry-address.ts";

export const contentDomain = "svc.localhost";

/** Address ranges of the nodes; platforms that share an engine need different ones. */
export interface Networks {
  /** First two octets of the container networks, such as 10.213. */
  containers: string;
  /** First three octets of the nodes' own addresses on loopback, such as 127.0.1. */
  nodes: string;
}

/** What the settings of our own programs are made of. */
export interface DaemonFacts {
  layout: Layout;
  ports: Ports;
  agents: number;
  baseImage: string;
  builderImage: string;
  databaseImages: Readonly<Record<DatabaseEngine, string>>;
  /** Empty: no pictures of sites are taken. */
  captureImage: string;
  buildCaFile: string | null;
  dockerSocket: string;
  databaseUrl: string;
  /** Of every member, separated by commas. */
  etcdEndpoint: string;
  /** Three replicas of control instead of one. */
  ha?: boolean;
  registry: LocalRegistry;
  networks: Networks;
  env: NodeJS.ProcessEnv;
  /** Settings of control over those made here. */
  control: Record<string, string>;
  /** Likewise of agents. */
  agent?: Record<string, string>;
  /** Sites get certificates of a CA, and not of Caddy's own. */
  acme?: boolean;
}

/**
 * MB of the young generation. A small one more than halves what an idle program holds in memory (measured: control 186 to
 * 130 MB after start) and costs short, frequent collections, which are not felt on one machine.
 */
const youngMb = { control: 4, agent: 1, router: 1, dbproxy: 1 } as const;
const youngGeneration = (of: keyof typeof youngMb) => `--max-semi-space-size=${youngMb[of]}`;

/**
 * Of control: large allocations get pages of their own. Each connection holds 80 KB of buffers for life and writes to a
 * tenth of them; in the heap of the C library those would lie on memory that something else had used before, and so be
 * resident as a whole. The bound on their number leaves the kernel's maps of a process (65,530) to V8.
 */
const allocator = {
  MALLOC_MMAP_THRESHOLD_: "16384",
  MALLOC_TRIM_THRESHOLD_: "16384",
  MALLOC_TOP_PAD_: "0",
  MALLOC_MMAP_MAX_: "30000",
} as const;

/** How one of our programs is run. */
const argvOf = (program: keyof typeof youngMb, ...args: string[]): Argv => [
  nodeBinary(),
  // Of control `NODE_OPTIONS` says it, see `controlEnvironment`, and may say otherwise.
  ...(program === "control" ? [] : [youngGeneration(program)]),
  join(repositoryRoot, program, "src", "main.ts"),
  ...args,
];

const loopbackAddress = "127.0.0.1";
const loopback = (port: number) => `${loopbackAddress}:${port}`;

export const apiUrlOf = ({ api }: Pick<ReplicaPorts, "api">) => `http://${loopback(api)}`;

/** Settings of control, for serving as well as for its other commands; `own` are the ports of the replica. */
export const controlEnvironment = (facts: DaemonFacts, own: ReplicaPorts = facts.ports): NodeJS.ProcessEnv =>
  environmentOf(facts.env, {
    SVC_API_LISTEN: loopback(own.api),
    SVC_API_URL: apiUrlOf(own),
    SVC_DATABASE_URL: facts.databaseUrl,
    SVC_ETCD_ENDPOINTS: facts.etcdEndpoint,
    SVC_LINK_LISTEN: loopback(own.link),
    SVC_ENROLL_LISTEN: loopback(own.enroll),
    SVC_METRICS_LISTEN: loopback(own.metrics),
    SVC_CONTENT_URL: `http://${contentDomain}:${facts.ports.http}`,
    SVC_REGISTRY_URL: facts.registry.url,
    SVC_REGISTRY_PUBLIC_URL: facts.registry.url,
    SVC_REGISTRY_TOKEN_KEY_FILE: facts.layout.secrets.registryTokenKey,
    SVC_REGISTRY_TOKEN_CERT_FILE: facts.layout.secrets.registryTokenCertificate,
    SVC_REGISTRY_EVENTS_SECRET_FILE: facts.layout.secrets.registryEventsSecret,
    SVC_REGISTRY_ALLOW: facts.registry.host,
    SVC_MASTER_KEY_FILE: facts.layout.secrets.masterKey,
    SVC_AUTH_SECRET_FILE: facts.layout.secrets.authSecret,
    SVC_SIGNUP: "open",
    SVC_OUTBOX_DIR: facts.layout.outbox,
    SVC_BASE_IMAGE_NODE: facts.baseImage,
    SVC_BUILDER_IMAGE_NODE: facts.builderImage,
    SVC_DB_IMAGE_POSTGRES: facts.databaseImages.postgres,
    SVC_DB_IMAGE_MARIADB: facts.databaseImages.mariadb,
    SVC_CAPTURE_IMAGE: facts.captureImage,
    ...(facts.buildCaFile !== null && { SVC_BUILD_CA_FILE: facts.buildCaFile }),
    NODE_OPTIONS: youngGeneration("control"),
    ...allocator,
    ...facts.control,
  });

/** Every replica of control: `control`, or with `ha` `control-1` to `control-3`. */
export const controlSpecs = (facts: DaemonFacts): ProgramSpec[] =>
  replicaPorts(facts.ports, facts.ha === true).map((own, index) =>
    controlSpec(facts, { name: facts.ha === true ? `control-${index + 1}` : "control", own }),
  );

export const controlSpec = (
  facts: DaemonFacts,
  { name, own }: { name: string; own: ReplicaPorts } = { name: "control", own: facts.ports },
): ProgramSpec => ({
  name,
  argv: argvOf("control", "serve"),
  env: controlEnvironment(facts, own),
  ready: "line",
  readyMs: 60_000,
  stopSignal: "SIGTERM",
  graceMs: 15_000,
});

/** What of the machine's memory is the nodes': the rest is the system's and the platform's own. */
const nodesMemoryShare = 0.8;
/** Least that one of several nodes on a small machine claims: enough for what is set aside for a build, and some sites. */
const nodeMemoryMbMin = 512;
const nodeMillicoresMin = 300;

const linkSettings = ({ ports, ha = false }: Pick<DaemonFacts, "ports" | "ha">) => {
  const urls = (of: "enroll" | "link") =>
    replicaPorts(ports, ha)
      .map((own) => `https://${loopback(own[of])}`)
      .join(",");
  return { SVC_ENROLL_URL: urls("enroll"), SVC_LINK_URL: urls("link") };
};

export const agentName = (number: number) => `node-${number}`;
export const agentTokenFile = (layout: Layout, number: number) => join(layout.tokens, `${agentName(number)}`);
export const routerTokenFile = (layout: Layout) => join(layout.tokens, "edge-1");

/** The agent of node `number`, counted from 1; each has its own loopback address and networks. */
export function agentSpec(facts: DaemonFacts, number: number): ProgramSpec {
  // The nodes are one machine: each offers its part of it, and together they offer no more than there is.
  const part = (whole: number, least: number) => String(Math.max(least, Math.floor(whole / facts.agents)));
  return {
    name: `agent-${number}`,
    argv: argvOf("agent"),
    env: environmentOf(facts.env, {
      ...linkSettings(facts),
      SVC_METRICS_LISTEN: `${facts.networks.nodes}.${number}:${facts.ports.metricsNode}`,
      SVC_AGENT_DIR: facts.layout.agent(number),
      SVC_DBPROXY_DIR: facts.layout.databaseProxy(number),
      SVC_DBPROXY_PEER_PORT: String(facts.ports.databases),
      SVC_AGENT_NAME: agentName(number),
      // The machine is somebody's own, who has other things to do on its network.
      SVC_AGENT_EGRESS: "metadata",
      SVC_AGENT_ADDRESS: `${facts.networks.nodes}.${number}`,
      SVC_BOOTSTRAP_TOKEN_FILE: agentTokenFile(facts.layout, number),
      SVC_DOCKER_SOCKET: facts.dockerSocket,
      SVC_NODE_MEMORY_MB: part((totalmem() / 1024 ** 2) * nodesMemoryShare, nodeMemoryMbMin),
      SVC_NODE_CPU_MILLICORES: part(cpus().length * 1000, nodeMillicoresMin),
      SVC_AGENT_SUBNETS: `${facts.networks.containers}.${(number - 1) * 32}.0/19`,
      ...facts.agent,
    }),
    ready: "line",
    readyMs: 60_000,
    stopSignal: "SIGTERM",
    graceMs: 15_000,
  };
}

/** The database proxy of node `number`, which runs with these rights: see `layProxyDirs`. */
export const databaseProxySpec = (facts: DaemonFacts, number: number, privileges: readonly string[]): ProgramSpec => ({
  name: `dbproxy-${number}`,
  argv: argvOf("dbproxy"),
  privileges,
  env: environmentOf(facts.env, {
    SVC_DBPROXY_DIR: facts.layout.databaseProxy(number),
    SVC_DBPROXY_PEER_LISTEN: `${facts.networks.nodes}.${number}:${facts.ports.databases}`,
    SVC_METRICS_LISTEN: `${facts.networks.nodes}.${number}:${facts.ports.metricsDatabases}`,
  }),
  // It may not enter every directory that leads to where it was started from.
  cwd: "/",
  ready: "line",
  readyMs: 60_000,
  // Sessions of apps would keep it for minutes after SIGTERM, and the apps go, too.
  stopSignal: "SIGINT",
  graceMs: 10_000,
});

/** Where one edge listens, and what it keeps where. */
export interface EdgeSite {
  /** Of its router, as a program. */
  name: string;
  /** The ports of the platform's edge are at this one. */
  address: string;
  router: string;
  /** In memory. */
  routeTable: string;
  caddyAdmin: string;
  tokenFile: string;
}

/** The edge that every platform has. */
const firstEdge = (layout: Layout): EdgeSite => ({
  ...{ name: "router", address: loopbackAddress, router: layout.router, routeTable: layout.routeTable },
  ...{ caddyAdmin: layout.caddyAdmin, tokenFile: routerTokenFile(layout) },
});

export const routerSpec = (
  facts: Pick<DaemonFacts, "layout" | "ports" | "ha" | "acme" | "env">,
  { name, address, router, routeTable, caddyAdmin, tokenFile }: EdgeSite = firstEdge(facts.layout),
): ProgramSpec => ({
  name,
  argv: argvOf("router"),
  env: environmentOf(facts.env, {
    ...linkSettings(facts),
    SVC_METRICS_LISTEN: `${address}:${facts.ports.metricsEdge}`,
    SVC_ROUTER_DIR: router,
    SVC_ROUTER_TABLE_DIR: routeTable,
    SVC_BOOTSTRAP_TOKEN_FILE: tokenFile,
    SVC_EDGE_HTTP: `${address}:${facts.ports.http}`,
    SVC_EDGE_HTTPS: `${address}:${facts.ports.https}`,
    SVC_EDGE_HEALTH_LISTEN: `${address}:${facts.ports.edgeHealth}`,
    SVC_EDGE_TLS: facts.acme === true ? "acme" : "internal",
    SVC_CADDY_ADMIN: caddyAdmin,
    SVC_CADDY_BINARY: edgeCaddy(facts.env),
    SVC_ROUTER_LISTEN: `${address}:${facts.ports.pages}`,
    SVC_EDGE_CERTIFICATES_LISTEN: `${address}:${facts.ports.certificates}`,
    SVC_CONTENT_DOMAIN: contentDomain,
  }),
  ready: "line",
  readyMs: 60_000,
  stopSignal: "SIGTERM",
  graceMs: 10_000,
});

/** Runs one command of control to its end, such as `migrate`. */
export const controlCommand = (facts: DaemonFacts, args: readonly string[]) => ({
  argv: argvOf("control", ...args),
  env: controlEnvironment(facts),
});

/** Makes what signs the registry's tokens, before there is anything else. */
export const registryKeyCommand = (
  {
    registryTokenKey,
    registryTokenCertificate,
  }: Pick<Layout["secrets"], "registryTokenKey" | "registryTokenCertificate">,
  env: NodeJS.ProcessEnv,
) => ({
  argv: argvOf("control", "registry-key", "--key-file", registryTokenKey, "--cert-file", registryTokenCertificate),
  env: environmentOf(env, {}),
});

/** Prints the configuration that Caddy starts with: what the router needs to take it over. */
export const bootConfigCommand = (...of: Parameters<typeof routerSpec>) => {
  const { argv, env } = routerSpec(...of);
  return { argv: [...argv, "boot-config"] as const, env };
};
