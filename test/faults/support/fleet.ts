import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { graceMs } from "@svc/control/fleet/cluster/node-links";
import { startProxy, type TcpProxy } from "@svc/control/stores/etcd/testing-proxy";
import { ensureSecrets, prepareCluster } from "@svc/deploy/administration";
import { createKey, signIn } from "@svc/deploy/api";
import { provideCaddy } from "@svc/deploy/caddy";
import {
  agentSpec,
  apiUrlOf,
  bootConfigCommand,
  controlSpec,
  type DaemonFacts,
  databaseProxySpec,
  routerSpec,
} from "@svc/deploy/daemons";
import { layProxyDirs } from "@svc/deploy/database-proxy";
import { provideEngine } from "@svc/deploy/engine";
import { provideEtcd } from "@svc/deploy/etcd";
import { type Layout, layoutOf } from "@svc/deploy/layout";
import { repositoryRoot, runtimeRoot } from "@svc/deploy/paths";
import { freePorts, type Ports, type ReplicaPorts, replicaPorts } from "@svc/deploy/ports";
import { providePostgres } from "@svc/deploy/postgres";
import { createProgram, type Program, type ProgramSpec } from "@svc/deploy/program";
import { provideRegistry } from "@svc/deploy/registry";
import { readSettings } from "@svc/deploy/settings";
import { run } from "@svc/runtime/command";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { type ApiResult, type CliOptions, type CliResult, type ClusterClient, clientOf } from "../../cluster.ts";
import { sweepGroups } from "../../support/host.ts";
import { discardCluster, makeClusterDir, platformDir, sweepAbandonedClusters } from "../../support/sweep.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type Bridge, makeBridge } from "./bridge.ts";
import { createMachine, type Machine } from "./machine.ts";
import { createNode, type Node } from "./node.ts";
import { copySsr } from "./ssr.ts";

export interface FleetOptions {
  machines: number;
  /** How many of them are switched on, from the first; all unless it is given. */
  on?: number;
  /** Replicas of control: `control`, and with two `control-2`; one unless it is given. */
  replicas?: 1 | 2;
  /** Whether each replica of control reaches etcd by a way of its own, which can be cut. */
  ownWays?: boolean;
  /** Settings of control over the usual ones. */
  control?: Record<string, string>;
  /** Size of the disk of every machine; they share that of this machine unless it is given. */
  diskMb?: number;
  /** Settings of every agent over the usual ones. */
  agent?: Record<string, string>;
  /** Whether machines have a database proxy each, by which edges come in to containers, too; with databases in any case. */
  proxies?: boolean;
  /** Whether machines have images of database servers. */
  databases?: boolean;
}

/**
 * The platform on several machines: control, storage and the edge on this one, and one node on each of the others,
 * which have networks and engines of their own. Disposing removes every trace.
 */
export interface Fleet extends AsyncDisposable {
  layout: Layout;
  ports: Ports;
  apiUrl: string;
  nodes: readonly Node[];
  /** Node `number`, counted from 1. */
  node(number: number): Node;
  /** control, control-2, etcd, postgres, registry, caddy or router. */
  program(name: string): Program;
  /** Starts control anew with these settings over those that it had first. */
  configureControl(settings: Record<string, string>): Promise<void>;
  cli(args: readonly string[], options?: CliOptions): Promise<CliResult>;
  api(method: string, path: string, body?: unknown): Promise<ApiResult>;
  replicas: readonly Replica[];
  /** Resolves once control takes the loss of a node for what it is: a new leader waits before it does. */
  settled(): Promise<void>;
  /** A fresh copy of the `ssr` example that is to run as so many containers. */
  ssrDir(app: { replicas: number; slug: string }): Promise<string>;
}

/** A replica of control, and what a user of it has in hand. */
export interface Replica {
  name: string;
  program: Program;
  apiUrl: string;
  client: ClusterClient;
  /** Its way to etcd, on a fleet where each has one of its own. */
  way: TcpProxy | null;
}

const adminEmail = "admin@svc.localhost";

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const settings = readSettings(process.env, repositoryRoot);
  await sweepAbandonedClusters(settings.dockerSocket);
  await sweepGroups();
  const log = (line: string) => {
    if (process.env["SVC_TEST_VERBOSE"] === "1") console.error(`  ${line}`);
  };
  await using stack = new AsyncDisposableStack();
  const bridge = stack.use(await makeBridge());
  const dir = await makeClusterDir();
  stack.defer(() => discardCluster(dir, settings.dockerSocket));
  const layout = layoutOf(platformDir(dir), runtimeRoot(process.env));
  for (const each of [layout.runtime, layout.routeTable, layout.outbox, layout.control, layout.logs]) {
    await mkdir(each, { recursive: true, mode: each === layout.dir ? 0o711 : 0o700 });
  }
  const ports = await freePorts(systemRandom);
  const replicas = await Promise.all(
    replicaPorts(ports, true)
      .slice(0, options.replicas ?? 1)
      .map(async (own, index) => ({
        own,
        name: index === 0 ? "control" : `control-${index + 1}`,
        way: options.ownWays === true ? stack.use(await startProxy(ports.etcd)) : null,
      })),
  );
  const programs = new Map<string, Program>();
  // Whichever goes by that name at the end.
  stack.defer(async () => {
    for (const name of [...programs.keys()].toReversed()) await programs.get(name)?.stop();
  });
  const start = async (spec: ProgramSpec) => {
    const program = createProgram(systemClock, spec, layout, log);
    programs.set(spec.name, program);
    await program.start();
  };

  const { adminPassword } = await ensureSecrets(layout);
  const storage = await startStorage({ layout, ports, bridge, start });
  const facts: DaemonFacts = {
    layout,
    ports,
    agents: options.machines,
    // The engines of the machines are given nothing else.
    ...{ baseImage: settings.baseImage, builderImage: settings.baseImage },
    databaseImages: settings.databaseImages,
    // No machine of the fleet has the image.
    captureImage: "",
    buildCaFile: null,
    dockerSocket: "",
    networks: { containers: "10.213", nodes: "127.0.0" },
    env: process.env,
    ...storage,
    control: {
      // The bridge is a network of this machine alone.
      SVC_PLAINTEXT_ALLOW: "registry",
      ...options.control,
    },
  };
  await prepareCluster(facts, adminEmail);
  const ownSettings = ({ own, way }: { own: ReplicaPorts; way: TcpProxy | null }) => ({
    SVC_LINK_LISTEN: `${bridge.address}:${own.link}`,
    SVC_ENROLL_LISTEN: `${bridge.address}:${own.enroll}`,
    ...(way !== null && { SVC_ETCD_ENDPOINTS: way.endpoint }),
  });
  for (const replica of replicas) await start(withSettings(controlSpec(facts, replica), ownSettings(replica)));
  const leadingSince = performance.now();
  const urls = (of: "enroll" | "link") => replicas.map(({ own }) => `https://${bridge.address}:${own[of]}`).join(",");
  const reach = { SVC_ENROLL_URL: urls("enroll"), SVC_LINK_URL: urls("link") };
  const boot = bootConfigCommand(facts);
  const caddy = await provideCaddy({
    dir: layout.caddy,
    adminSocket: layout.caddyAdmin,
    bootConfig: (await run(boot.argv, { env: boot.env })).stdout,
    env: process.env,
  });
  await start(caddy.spec);
  await start(withSettings(routerSpec(facts), reach));

  const engine = await provideEngine({
    clock: systemClock,
    socketPath: settings.dockerSocket,
    logFile: join(layout.logs, "docker.log"),
    log,
  });
  stack.use(engine);
  const databases = options.databases ?? false;
  const hasProxies = databases || (options.proxies ?? false);
  const proxyRights = hasProxies ? await layProxyDirs(layout, options.machines) : [];
  const nodes = await Promise.all(
    Array.from({ length: options.machines }, async (_, index) => {
      const number = index + 1;
      const machine: Machine = await createMachine({
        number,
        bridge,
        dir: join(dir, "machines", String(number)),
        diskMb: options.diskMb ?? null,
      });
      stack.use(machine);
      return createNode({
        machine,
        spec: withSettings(agentSpec(facts, number), { ...reach, ...options.agent }),
        proxySpec: hasProxies
          ? withSettings(databaseProxySpec(facts, number, proxyRights), {
              SVC_DBPROXY_PEER_LISTEN: `${machine.address}:${ports.databases}`,
            })
          : null,
        imageNames: [settings.baseImage, ...(databases ? Object.values(settings.databaseImages) : [])],
        images: engine.docker,
      });
    }),
  );
  for (const node of nodes.slice(0, options.on)) await node.powerOn();

  const apiUrl = apiUrlOf(ports);
  const session = await signIn(systemClock, apiUrl, { email: adminEmail, password: adminPassword });
  const { key } = await createKey(systemClock, apiUrl, session, { name: "tests", expiresInSeconds: null });
  const held = stack.move();
  let copies = 0;
  const program = (name: string): Program => {
    const found = programs.get(name);
    if (found === undefined) throw new RangeError(`no program ${name}; there are ${[...programs.keys()].join(", ")}`);
    return found;
  };
  return {
    layout,
    ports,
    apiUrl,
    nodes,
    node(number) {
      const found = nodes[number - 1];
      if (found === undefined) throw new RangeError(`there are ${nodes.length} nodes`);
      return found;
    },
    program,
    async configureControl(settings) {
      await programs.get("control")?.stop();
      const [first] = replicas;
      if (first === undefined) throw new RangeError("there is no control");
      await start(withSettings(controlSpec(facts, first), { ...ownSettings(first), ...settings }));
    },
    replicas: replicas.map(({ name, own, way }) => {
      const url = apiUrlOf(own);
      const client = clientOf({ apiUrl: url, key, dir });
      return {
        ...{ name, apiUrl: url, client, way },
        get program() {
          return program(name);
        },
      };
    }),
    ...clientOf({ apiUrl, key, dir }),
    async settled() {
      await waitFor(
        "the leader to be settled",
        graceMs + 10_000,
        () => performance.now() - leadingSince > graceMs + 2_000,
      );
    },
    async ssrDir(app) {
      copies += 1;
      const target = join(dir, "sources", `ssr-${copies}`);
      await copySsr(target, app);
      return target;
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

const withSettings = (spec: ProgramSpec, settings: Record<string, string>): ProgramSpec => ({
  ...spec,
  env: { ...spec.env, ...settings },
});

async function startStorage(options: {
  layout: Layout;
  ports: Ports;
  bridge: Bridge;
  start: (spec: ProgramSpec) => Promise<void>;
}): Promise<Pick<DaemonFacts, "databaseUrl" | "etcdEndpoint" | "registry">> {
  const { layout, ports, bridge, start } = options;
  const env = process.env;
  const postgres = await providePostgres({
    dir: layout.postgres,
    port: ports.postgres,
    secrets: layout.secrets,
    env,
    durable: false,
  });
  const etcd = await provideEtcd({
    dir: layout.etcd,
    port: ports.etcd,
    peerPort: ports.etcdPeer,
    env,
    durable: false,
  });
  const local = await provideRegistry({
    dir: layout.registry,
    port: ports.registry,
    secrets: layout.secrets,
    apiUrl: apiUrlOf(ports),
    env,
    log: () => {},
  });
  // The engines of the machines pull from it and push to it.
  const host = `${bridge.address}:${ports.registry}`;
  await start(postgres.spec);
  await postgres.prepare();
  await start(etcd.spec);
  await start({
    ...withSettings(local.spec, { REGISTRY_HTTP_ADDR: host }),
    ready: async (signal) => (await fetch(`http://${host}/v2/`, { signal })).status === 401,
  });
  return {
    databaseUrl: postgres.databaseUrl,
    etcdEndpoint: etcd.endpoint,
    registry: { ...local, host, url: `http://${host}` },
  };
}
