import { hostname } from "node:os";
import { databaseProxyPort } from "@svc/proto/database-proxy";
import { isPrivateListen, privateListenHint } from "@svc/telemetry";
import { endpointListProblem, splitEndpoints } from "@svc/uplink";
import { z } from "zod";
import { type EgressMode, type EgressTarget, egressTargetsMax, parseEgressTarget } from "./network/egress.ts";

/** A setting is missing or wrong. The message names it and says what it should be. */
export class ConfigError extends Error {
  override name = "ConfigError";
}

const subnet = z
  .string()
  .regex(/^(\d{1,3}\.){3}\d{1,3}\/(?:[89]|1\d|2[0-7])$/, "must be a subnet such as 10.213.0.0/16");
const portRange = z.string().regex(/^\d{1,5}-\d{1,5}$/, "must be a range such as 20000-31999");
const labels = z
  .string()
  .regex(/^(?:[A-Za-z0-9._/-]+=[^,=]*(?:,|$))*$/, "must be k=v,k=v")
  .transform((text) => Object.fromEntries(text.split(",").filter(Boolean).map(splitLabel)));
/** Replicas of control: any of them will do. */
const endpoints = z.string().transform((text, context) => {
  const problem = endpointListProblem(text);
  if (problem !== null) context.addIssue(problem);
  return splitEndpoints(text);
});
const egressTargets = z.string().transform((text, context) => {
  const entries = text.split(",").map((each) => each.trim());
  if (entries.length > egressTargetsMax) context.addIssue(`must be at most ${egressTargetsMax} entries`);
  return entries.filter(Boolean).map((each) => {
    const target = parseEgressTarget(each);
    if (target !== null) return target;
    context.addIssue(`"${each}" is no address or network, such as 10.0.0.5:5432, 10.1.0.0/16 or [fd00::5]:5432`);
    return z.NEVER;
  });
});
const wholeNumber = z.coerce.number().int().positive();

/** Every setting of the agent, with its default. */
export const settings = z.object({
  /** Identity, journal and build scratch space. Never shared by two agents. */
  SVC_AGENT_DIR: z.string().default("/var/lib/svc/agent"),
  /** Private address at which edges reach containers. */
  SVC_AGENT_ADDRESS: z
    .ipv4()
    .refine((address) => !address.startsWith("0."), "must be one private address of this machine, such as 10.0.0.7")
    .default("127.0.0.1"),
  /**
   * Whether containers that begin are behind entrances, where edges come in over TLS alone; never on an address of loopback,
   * nor before every edge and this machine's database proxy know them.
   */
  SVC_AGENT_ENTRANCES: z.enum(["on", "off"]).default("on"),
  SVC_AGENT_NAME: z.string().min(1).max(63).default(hostname()),
  SVC_ENROLL_URL: endpoints.prefault("https://127.0.0.1:7444"),
  SVC_LINK_URL: endpoints.prefault("https://127.0.0.1:7443"),
  /** Where operators' tools ask for metrics: a private address. Nowhere when absent. */
  SVC_METRICS_LISTEN: z
    .string()
    .regex(/^[^\s/]+:\d{1,5}$/, "must be host:port")
    .refine(isPrivateListen, privateListenHint)
    .optional(),
  /** Read while the node has no identity, and again when its certificate is over. */
  SVC_BOOTSTRAP_TOKEN_FILE: z.string().optional(),
  /** What this agent shares with the machine's database proxy. Whose it is the proxy runs as. */
  SVC_DBPROXY_DIR: z.string().startsWith("/", "must be an absolute path").default("/var/lib/svc/dbproxy"),
  /** Where the database proxies of other nodes listen, each at its node's address. */
  SVC_DBPROXY_PEER_PORT: z.coerce.number().int().min(1024).max(65_535).default(databaseProxyPort),
  SVC_DOCKER_SOCKET: z.string().default("/var/run/docker.sock"),
  /** What the scheduler may count on; measured when absent. */
  SVC_NODE_MEMORY_MB: wholeNumber.optional(),
  SVC_NODE_CPU_MILLICORES: wholeNumber.optional(),
  SVC_NODE_LABELS: labels.default({}),
  /** Pool that project networks are cut from, a /28 each. */
  SVC_AGENT_SUBNETS: subnet.default("10.213.0.0/16"),
  /** Host ports for containers. Below the kernel's ephemeral range, so no outgoing connection holds one. */
  SVC_AGENT_PORTS: portRange.default("20000-31999"),
  /** Bridge on which the engine runs build steps: kept from the host's services too. Empty leaves it alone. */
  SVC_AGENT_BUILD_BRIDGE: z
    .string()
    .regex(/^[A-Za-z0-9._-]{0,15}$/, "must be an interface name")
    .default("docker0"),
  /** What programs of this machine may begin to speak to, the container engine among them: see deploy/env.example. */
  SVC_AGENT_EGRESS: z.enum(["closed", "metadata", "open"]).default("closed"),
  /** What they need besides control and the registry. */
  SVC_AGENT_EGRESS_ALLOW: egressTargets.prefault(""),
  /** Free disk space below which no new work is taken; absent: 5 % of the disk, at least 2 GiB and at most 10. */
  SVC_AGENT_DISK_FLOOR_MB: z.coerce.number().int().min(0).optional(),
  /** Memory that has to be left for new work to be taken; absent: 1/16 of the machine, at least 128 MiB and at most 1 GiB. */
  SVC_AGENT_MEMORY_FLOOR_MB: z.coerce.number().int().min(0).optional(),
  /** What builds leave for later ones is kept up to this size, the newest of it. */
  SVC_AGENT_BUILD_CACHE_MB: z.coerce.number().int().min(0).default(10_240),
  /** How often keepers of copies look at what their servers have; absent: as often as they do by themselves. */
  SVC_AGENT_COPY_LOOK_MS: z.coerce.number().int().min(100).max(60_000).optional(),
  SVC_LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
});

export interface Config {
  dir: string;
  address: string;
  /** Whether containers that begin may be behind entrances. */
  entrances: boolean;
  name: string;
  enrollUrls: string[];
  linkUrls: string[];
  metricsListen: { host: string; port: number } | null;
  bootstrapTokenFile: string | null;
  databaseProxy: { dir: string; peerPort: number };
  dockerSocket: string;
  memoryMb: number | null;
  cpuMillicores: number | null;
  labels: Record<string, string>;
  subnets: string;
  ports: { first: number; last: number };
  /** Null: build steps are not restricted by this agent. */
  buildBridge: string | null;
  egress: { mode: EgressMode; allow: EgressTarget[] };
  /** Null: one that fits the disk. */
  diskFloorMb: number | null;
  /** Null: one that fits the machine. */
  memoryFloorMb: number | null;
  buildCacheMb: number;
  /** Null: as often as keepers do by themselves. */
  copyLookMs: number | null;
  logLevel: "trace" | "debug" | "info" | "warn" | "error" | "silent";
}

/** Reads and checks every setting. Throws `ConfigError` naming the first that is wrong. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  // An empty value means "not set", except where empty is a choice of its own.
  const given = Object.keys(settings.shape).filter(
    (key) => env[key] !== undefined && (env[key] !== "" || key === "SVC_AGENT_BUILD_BRIDGE"),
  );
  const result = settings.safeParse(Object.fromEntries(given.map((key) => [key, env[key]])));
  if (!result.success) {
    const [issue] = result.error.issues;
    throw new ConfigError(`${String(issue?.path[0])}: ${issue?.message}`);
  }
  const s = result.data;
  const [first = 0, last = 0] = s.SVC_AGENT_PORTS.split("-").map(Number);
  if (first < 1024 || last > 65_535 || first > last) {
    throw new ConfigError("SVC_AGENT_PORTS: must lie within 1024-65535, lower port first");
  }
  return {
    dir: s.SVC_AGENT_DIR,
    address: s.SVC_AGENT_ADDRESS,
    entrances: s.SVC_AGENT_ENTRANCES === "on",
    name: s.SVC_AGENT_NAME,
    enrollUrls: s.SVC_ENROLL_URL,
    linkUrls: s.SVC_LINK_URL,
    metricsListen: s.SVC_METRICS_LISTEN === undefined ? null : listenAddress(s.SVC_METRICS_LISTEN),
    bootstrapTokenFile: s.SVC_BOOTSTRAP_TOKEN_FILE ?? null,
    databaseProxy: { dir: s.SVC_DBPROXY_DIR, peerPort: s.SVC_DBPROXY_PEER_PORT },
    dockerSocket: s.SVC_DOCKER_SOCKET,
    memoryMb: s.SVC_NODE_MEMORY_MB ?? null,
    cpuMillicores: s.SVC_NODE_CPU_MILLICORES ?? null,
    labels: s.SVC_NODE_LABELS,
    subnets: s.SVC_AGENT_SUBNETS,
    ports: { first, last },
    buildBridge: s.SVC_AGENT_BUILD_BRIDGE === "" ? null : s.SVC_AGENT_BUILD_BRIDGE,
    egress: { mode: s.SVC_AGENT_EGRESS, allow: s.SVC_AGENT_EGRESS_ALLOW },
    diskFloorMb: s.SVC_AGENT_DISK_FLOOR_MB ?? null,
    memoryFloorMb: s.SVC_AGENT_MEMORY_FLOOR_MB ?? null,
    buildCacheMb: s.SVC_AGENT_BUILD_CACHE_MB,
    copyLookMs: s.SVC_AGENT_COPY_LOOK_MS ?? null,
    logLevel: s.SVC_LOG_LEVEL,
  };
}

function listenAddress(text: string): { host: string; port: number } {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(text.slice(at + 1)) };
}

function splitLabel(pair: string): [string, string] {
  const at = pair.indexOf("=");
  return [pair.slice(0, at), pair.slice(at + 1)];
}
