import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { writeDurably } from "@svc/runtime/durable-file";
import type Docker from "dockerode";
import { provideAcme } from "./acme/acme.ts";
import { ensureSecrets, prepareCluster, readAdminEmail, readState } from "./administration.ts";
import { ensureNodeImages, publishBaseImage } from "./base-image.ts";
import { provideCaddy } from "./caddy.ts";
import { ensureCaptureImage } from "./capture-image.ts";
import { removeClusterObjects } from "./cluster-objects.ts";
import {
  agentSpec,
  apiUrlOf,
  bootConfigCommand,
  contentDomain,
  controlCommand,
  controlSpecs,
  type DaemonFacts,
  databaseProxySpec,
  type Networks,
  routerSpec,
} from "./daemons.ts";
import { ensureDatabaseImages } from "./database-image.ts";
import { layProxyDirs } from "./database-proxy.ts";
import { discard } from "./discard.ts";
import { type Engine, provideEngine } from "./engine.ts";
import { provideEtcd, provideEtcdMembers } from "./etcd.ts";
import { Held, holdExclusively } from "./exclusive.ts";
import { type Layout, layoutOf } from "./layout.ts";
import { endLeftovers } from "./leftovers.ts";
import { nodeBinary, runtimeRoot } from "./paths.ts";
import { memberPorts, type Ports, replicaPorts, takenPorts } from "./ports.ts";
import { providePostgres } from "./postgres.ts";
import { identify } from "./process-id.ts";
import { createProgram, type Program, type ProgramSpec } from "./program.ts";
import { type OperatedRegistry, provideRegistry } from "./registry.ts";
import { settleAll } from "./settle-all.ts";

export interface PlatformOptions {
  clock: Clock;
  /** Everything but images is kept here. */
  dir: string;
  ports: Ports;
  /** How many nodes. */
  agents: number;
  /** Three replicas of control and three members of etcd instead of one each; Postgres and the registry stay single. */
  ha?: boolean;
  /** A CA and a DNS server on loopback, from which sites have certificates. */
  acme?: boolean;
  adminEmail: string;
  baseImage: string;
  builderImage: string;
  databaseImages: Readonly<Record<DatabaseEngine, string>>;
  /** Empty: no pictures of sites are taken. */
  captureImage: string;
  buildCaFile: string | null;
  dockerSocket: string;
  networks: Networks;
  /** Begin anew: everything in `dir` and every container of the cluster kept there goes first. */
  fresh: boolean;
  /** False trades safety against power loss for speed. */
  durable: boolean;
  /** Settings of control over the usual ones. */
  control?: Record<string, string>;
  /** Likewise of agents. */
  agent?: Record<string, string>;
  env: NodeJS.ProcessEnv;
  log: (line: string) => void;
  /** Gives up a start that is under way; what runs already is stopped. */
  signal?: AbortSignal;
}

/** The whole of svc on this machine. Disposing stops everything in order and removes the containers; state stays. */
export interface Platform extends AsyncDisposable {
  layout: Layout;
  ports: Ports;
  apiUrl: string;
  /** Of every replica of control, `apiUrl` first. */
  apiUrls: string[];
  edgeHttp: string;
  edgeHttps: string;
  contentDomain: string;
  clusterId: string;
  admin: { email: string; password: string };
  registry: OperatedRegistry;
  /** With `acme`: the file of the texts that the local DNS server tells. Else null. */
  dnsRecords: string | null;
  docker: Docker;
  baseImage: string;
  /**
   * postgres, etcd, registry, (with `acme`) pebble, control, agent-1…, dbproxy-1…, caddy, router; with `ha` etcd-1 to etcd-3 and control-1 to control-3.
   * Throws for another name.
   */
  program(name: string): Program;
  /** Runs a command of control, such as `after-restore`, and returns what it printed. Throws `CommandError`. */
  control(...args: string[]): Promise<string>;
}

/** The platform cannot start; the message is for a person. */
export class PlatformError extends Error {
  override readonly name = "PlatformError";
}

/** Starts programs and remembers them, so that whatever was started can be stopped in reverse order. */
function createRoster(clock: Clock, layout: Layout, log: (line: string) => void) {
  const programs = new Map<string, Program>();
  return {
    programs,
    async start(spec: ProgramSpec): Promise<void> {
      const program = createProgram(clock, spec, layout, log);
      programs.set(spec.name, program);
      const startedAtMs = clock.steadyMs();
      await program.start();
      log(`${spec.name} is up (${((clock.steadyMs() - startedAtMs) / 1000).toFixed(1)} s)`);
    },
    /** The program of that name, or all that are numbered: etcd, or etcd-1 to etcd-3. */
    namesOf: (kind: string) => [...programs.keys()].filter((name) => name === kind || name.startsWith(`${kind}-`)),
    /** Stops the named programs at once. */
    async stop(names: readonly string[]): Promise<void> {
      await Promise.all(names.map((name) => programs.get(name)?.stop()));
    },
  };
}

/** Starts what is below control: storage and engine. */
async function startStorage(options: PlatformOptions, layout: Layout, start: (spec: ProgramSpec) => Promise<void>) {
  const { ports, env, durable, ha = false } = options;
  const postgres = await providePostgres({
    dir: layout.postgres,
    port: ports.postgres,
    secrets: layout.secrets,
    env,
    durable,
  });
  const etcd = ha
    ? await provideEtcdMembers({ dirOf: layout.etcdMember, ports: memberPorts(ports, ha), env, durable })
    : [await provideEtcd({ dir: layout.etcd, port: ports.etcd, peerPort: ports.etcdPeer, env, durable })];
  const registry = await provideRegistry({
    dir: layout.registry,
    port: ports.registry,
    secrets: layout.secrets,
    apiUrl: apiUrlOf(ports),
    env,
    log: options.log,
  });
  // All members at once: none serves before most of them run.
  const members = etcd.map(({ spec }) => start(spec));
  await settleAll([start(postgres.spec).then(() => postgres.prepare()), ...members, start(registry.spec)]);
  const etcdEndpoint = etcd.map(({ endpoint }) => endpoint).join(",");
  return { databaseUrl: postgres.databaseUrl, etcdEndpoint, registry };
}

/** A cluster of three members does not come out of the data of one, nor the other way round. */
async function refuseOtherKind(layout: Layout, ha: boolean): Promise<void> {
  const state = await readState(layout);
  if (state === null || state.ha === ha) return;
  const [begun, now] = state.ha ? ["with", "without"] : ["without", "with"];
  throw new PlatformError(
    `the platform in ${layout.dir} was begun ${begun} --ha and cannot go on ${now} it; begin anew with --fresh, or set SVC_LOCAL_DIR to another directory`,
  );
}

/**
 * Starts the platform kept in `options.dir` and resolves when every part of it serves. A second start
 * continues with the state of the first. Throws `PlatformError` or `ProgramError`; nothing keeps running then.
 */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const { clock, log, ports, signal, ha = false } = options;
  const layout = layoutOf(options.dir, runtimeRoot(options.env));
  const stack = new AsyncDisposableStack();
  try {
    stack.use(
      await holdExclusively(clock, `platform in ${options.dir}`, 0).catch((error) => {
        throw error instanceof Held ? new PlatformError(`the platform in ${options.dir} is already running`) : error;
      }),
    );
    for (const name of await endLeftovers(clock, layout.runRecords))
      log(`ended ${name}, left over from a run that was cut short`);
    if (!options.fresh) await refuseOtherKind(layout, ha);
    const taken = await takenPorts(ports, { ha, acme: options.acme ?? false });
    if (taken.length > 0) throw new PlatformError(taken.join("\n"));
    // Others may pass through (Postgres runs as its own user); what must not be read is in files of mode 0600.
    await mkdir(layout.dir, { recursive: true, mode: 0o711 });
    await mkdir(layout.logs, { recursive: true, mode: 0o700 });
    const engine: Engine = stack.use(
      await provideEngine({ clock, socketPath: options.dockerSocket, logFile: join(layout.logs, "docker.log"), log }),
    );
    if (options.fresh) {
      await discard(clock, options);
      await mkdir(layout.dir, { recursive: true, mode: 0o711 });
    }
    for (const dir of [layout.runtime, layout.routeTable, layout.outbox, layout.control, layout.logs]) {
      await mkdir(dir, { recursive: true, mode: 0o700 });
    }
    stack.defer(() => rm(layout.runtime, { recursive: true, force: true }));
    stack.defer(() => rm(layout.supervisor, { force: true }));
    await writeDurably(layout.supervisor, JSON.stringify(identify(process.pid)));

    const roster = createRoster(clock, layout, log);
    stack.defer(() => roster.stop(["registry", "postgres", ...roster.namesOf("etcd")]));
    const { adminPassword } = await ensureSecrets(layout);
    const images = ensureNodeImages(options, { clock, docker: engine.docker, nodeBinary: nodeBinary(), log });
    const databaseImages = ensureDatabaseImages({ clock, docker: engine.docker, images: options.databaseImages, log });
    const captureImage = ensureCaptureImage({ clock, docker: engine.docker, image: options.captureImage, log });
    const storage = startStorage(options, layout, roster.start);
    await settleAll([images, databaseImages, captureImage, storage]);
    const acme = options.acme
      ? stack.use(await provideAcme({ dir: layout.acme, ports, contentDomain, env: options.env }))
      : null;
    if (acme !== null) {
      stack.defer(() => roster.stop(["pebble"]));
      await roster.start(acme.spec);
    }
    const settings = { ...acme?.control, ...options.control };
    const facts: DaemonFacts = { ...options, ...(await storage), layout, control: settings };

    const control = async (...args: string[]): Promise<string> => {
      const { argv, env } = controlCommand(facts, args);
      return (await run(argv, { env })).stdout;
    };
    const registry: OperatedRegistry = {
      host: facts.registry.host,
      async pushToken(repository, mountFrom) {
        const mounting = mountFrom === undefined ? [] : ["--mount-from", mountFrom];
        return (await control("registry-token", "--repository", repository, "--push", ...mounting)).trim();
      },
    };

    signal?.throwIfAborted();
    const published = publishBaseImage({ docker: engine.docker, image: options.baseImage, registry, log });
    const clusterId = await prepareCluster(facts, options.adminEmail);
    stack.defer(() => roster.stop(roster.namesOf("control")));
    const boot = bootConfigCommand(facts);
    const [{ stdout: bootConfig }] = await settleAll([
      run(boot.argv, { env: boot.env }),
      ...controlSpecs(facts).map(roster.start),
    ]);
    signal?.throwIfAborted();

    const agents = Array.from({ length: options.agents }, (_, index) => agentSpec(facts, index + 1));
    const rights = await layProxyDirs(layout, options.agents);
    const proxies = agents.map((_, index) => databaseProxySpec(facts, index + 1, rights));
    stack.defer(async () => {
      await roster.stop(agents.map(({ name }) => name));
      await roster.stop(proxies.map(({ name }) => name));
      await removeClusterObjects(engine.docker, clusterId);
    });
    stack.defer(() => roster.stop(["router", "caddy"]));
    const caddy = await provideCaddy({
      dir: layout.caddy,
      adminSocket: layout.caddyAdmin,
      bootConfig,
      env: options.env,
    });
    const edge = roster.start(caddy.spec).then(() => roster.start(routerSpec(facts)));
    await settleAll([edge, published, ...[...agents, ...proxies].map(roster.start)]);

    const apiUrls = replicaPorts(ports, ha).map(apiUrlOf);
    const held = stack.move();
    return {
      layout,
      ports,
      apiUrl: apiUrlOf(ports),
      apiUrls,
      edgeHttp: `http://127.0.0.1:${ports.http}`,
      edgeHttps: `https://127.0.0.1:${ports.https}`,
      contentDomain,
      clusterId,
      admin: { email: (await readAdminEmail(layout)) ?? options.adminEmail, password: adminPassword },
      registry,
      dnsRecords: acme?.recordsFile ?? null,
      docker: engine.docker,
      baseImage: options.baseImage,
      program(name) {
        const program = roster.programs.get(name);
        if (program === undefined)
          throw new RangeError(`no program ${name}; there are ${[...roster.programs.keys()].join(", ")}`);
        return program;
      },
      control,
      [Symbol.asyncDispose]: () => held.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}
