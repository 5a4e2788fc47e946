import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { NodeService } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Identity } from "@svc/uplink";
import { createPushDump } from "../backups/push.ts";
import { createStepLimiter } from "../build/step-limits.ts";
import type { Config } from "../config.ts";
import { openProxyDir } from "../databases/proxy-dir.ts";
import { createDockerEngine } from "../engine/docker.ts";
import { createImages } from "../images/images.ts";
import type { Journal } from "../journal/journal.ts";
import type { Link } from "../link.ts";
import type { Log } from "../log.ts";
import { type Append, type LogStream, openLogStream } from "../logs/log-stream.ts";
import { openTails } from "../logs/tails.ts";
import { countCalls } from "../metrics/count.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { isolatePorts } from "../network/bridge-ports.ts";
import type { IsolationGuard } from "../network/iptables.ts";
import { createNetworks } from "../network/networks.ts";
import { createClusterRegistry } from "../registry.ts";
import { knownRegistry } from "../session.ts";
import { createDiskWatch } from "../stats/disk.ts";
import { createEngineWatch } from "../stats/engine.ts";
import { createMemoryWatch } from "../stats/memory.ts";
import { createStatusReporter } from "../status-reporter.ts";
import { listFormer } from "./former.ts";

export interface ToolOptions {
  clock: Clock;
  random: Random;
  config: Config;
  identity: Identity;
  journal: Journal;
  isolation: IsolationGuard;
  metrics: Metrics;
  /** The link that is in use now. */
  link(): Link;
  /** Makes room on the disk, as far as there is something to throw away. */
  reclaim(isEnough: () => Promise<boolean>): Promise<void>;
  /** A network of containers came or went. */
  onNetworks(): void;
  signal: AbortSignal;
  log: Log;
}

export type Tools = Awaited<ReturnType<typeof createTools>>;

/** What work on this node is done with: its engine, images, networks, registry and logs, and what watches its resources. */
export async function createTools(options: ToolOptions) {
  const { clock, random, config, identity, journal, isolation, metrics, signal, log } = options;
  const owner = { clusterId: identity.clusterId, nodeId: identity.id };
  const { buildBridge, dir } = config;
  const formerNodeIds = await listFormer(dir);
  const engine = countCalls(
    clock,
    createDockerEngine({ socketPath: config.dockerSocket, owner, formerNodeIds, clock, random }),
    metrics,
  );
  const limiter = createStepLimiter({
    clock,
    owner,
    engineDir: async () => (await engine.describe()).rootDir,
    isolate: async () => (buildBridge === null ? undefined : isolatePorts(buildBridge)),
    log,
  });
  const client = () => createClient(NodeService, options.link().bulk);
  const registry = createClusterRegistry({
    clock,
    random,
    find: () => knownRegistry(journal),
    issue: (wish, within) => client().issueRegistryToken(wish, { signal: within }),
    log,
  });
  const append: Append = async (request, within) => (await client().appendLog(request, { signal: within })).length;
  const disk = createDiskWatch({
    clock,
    findDirs: async () => [dir, (await engine.describe()).rootDir],
    set: config.diskFloorMb,
    reclaim: options.reclaim,
    log,
  });
  return {
    owner,
    engine,
    limiter,
    client,
    registry,
    pushDump: createPushDump({ clock, registry }),
    disk,
    openLog: (streamId: string, replays: boolean, maxBytes: number): LogStream =>
      openLogStream({ clock, streamId, append, replays, maxBytes, signal, log }),
    tails: await openTails(clock, join(dir, "tails", `${identity.id}.${identity.incarnation}`)),
    memory: createMemoryWatch({ clock, set: config.memoryFloorMb, log }),
    engineWatch: createEngineWatch({ clock, engine, log }),
    images: createImages({ clock, engine, journal, registry, checkDisk: disk.check }),
    networks: createNetworks({
      ...{ engine, owner, pool: config.subnets, isolated: isolation.ready },
      onChange: options.onNetworks,
    }),
    proxyDir: openProxyDir(config.databaseProxy.dir),
    reporter: createStatusReporter(clock),
  };
}
