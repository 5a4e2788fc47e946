import { createClient } from "@connectrpc/connect";
import { EngineError } from "@svc/agent/engine/errors";
import { createImages } from "@svc/agent/images/images";
import type { Journal } from "@svc/agent/journal/journal";
import { copySampleLoop } from "@svc/agent/keepers/sample-loop";
import { openLogStream } from "@svc/agent/logs/log-stream";
import { createMetrics } from "@svc/agent/metrics/metrics";
import { createNetworks } from "@svc/agent/network/networks";
import type { Tools } from "@svc/agent/node/tools";
import { createWork, runWork } from "@svc/agent/node/work";
import { createClusterRegistry } from "@svc/agent/registry";
import { converse, knownRegistry } from "@svc/agent/session";
import { createEngineWatch } from "@svc/agent/stats/engine";
import { createStatusReporter, type StatusReporter } from "@svc/agent/status-reporter";
import { type Assign, NodeService, type PlacementStatus, type RunStatus } from "@svc/proto/node";
import { createWake } from "@svc/runtime/wake";
import { createEndpoints, FencedError, type Identity } from "@svc/uplink";
import type { Process } from "../kernel/kernel.ts";
import { enter, virtualClock, virtualRandom } from "../kernel/ports.ts";
import type { World } from "../world/world.ts";
import { addressOf, machineIdOf } from "./addresses.ts";
import type { Message } from "./connection.ts";
import { Disk, DiskFull, virtualJournal } from "./disk.ts";
import { Docker } from "./docker.ts";
import { virtualEngine } from "./engine.ts";
import { Gate } from "./gate.ts";
import { serverBehind } from "./keepers.ts";
import { virtualLog } from "./log.ts";
import { virtualMachine } from "./sights.ts";
import { urlOf, virtualTransport } from "./uplink.ts";

const clusterId = "cluster";
/** How soon what runs the agent starts it again. */
const startsAgainMs = 2_000;
/** Of all lives of all agents: nobody reads it, and making one is slow. */
const metrics = createMetrics();
const config = {
  dir: "/var/lib/svc",
  ports: { first: 20_000, last: 20_039 },
  entrances: true,
  databaseProxy: { dir: "/run/svc", peerPort: 7_500 },
  buildCacheMb: 1_024,
};

/**
 * One machine with an agent: what is on its disk and in its engine outlives the agent's process. What it does is the
 * product's, from the session to the last step of a container: here are only its ports.
 */
export class AgentMachine {
  readonly process: Process;
  readonly docker: Docker;
  readonly disk: Disk;
  readonly gate: Gate;
  reporter: StatusReporter | null = null;
  private readiness = { connected: false };
  isFenced = false;
  /** Its power is off, or it is to stay down. */
  isOff = false;
  /** Nobody will ever switch it on again. */
  staysDown = false;
  bootId = 1;

  readonly world: World;
  readonly machineId: string;
  readonly nodeId: string;
  readonly incarnation: number;
  readonly memoryMb: number;

  constructor(
    world: World,
    machineId: string,
    nodeId: string,
    incarnation: number,
    memoryMb: number,
    clock: { drift: number; wallOffsetMs: number },
  ) {
    this.world = world;
    this.machineId = machineId;
    this.nodeId = nodeId;
    this.incarnation = incarnation;
    this.memoryMb = memoryMb;
    this.process = world.newProcess(machineId, clock);
    this.process.alive = false;
    this.process.onUncaught = (error) => {
      world.checks.onUncaught(machineId, error);
      this.end(error);
    };
    this.docker = new Docker(world.kernel, this.process, machineId, world.checks.agents);
    this.docker.removesEndedRuns = !world.footing.keepsRunContainers;
    this.docker.reach = ({ databaseId, copyId }) => {
      const found = serverBehind(world, this, databaseId, { purpose: "copy", copyId });
      return found && { volume: found.volume, atMs: world.postgres.nowMs() };
    };
    this.disk = new Disk(world.kernel, this.process);
    this.gate = new Gate(world.kernel, this.docker.databases.random);
    this.gate.onTable = (before, now) => world.checks.databases.onTable(this, before, now);
    this.disk.isSynced = world.footing.syncsJournal;
    this.disk.onWrite = () => world.onJournalWrite(this);
  }

  get address(): string {
    return addressOf(this.nodeId);
  }

  get isConnected(): boolean {
    return this.process.alive && this.readiness.connected;
  }

  start(): void {
    const { process } = this;
    if (process.alive || this.isFenced || this.isOff) return;
    process.start();
    const { life } = process;
    const isLive = (): boolean => process.alive && process.life === life;
    enter(process, () => {
      this.live().catch((error: unknown) => {
        if (isLive()) this.end(error);
      });
    });
  }

  /** Everything that the agent does in one life. Ends by throwing. */
  private async live(): Promise<void> {
    const { world, process, docker, nodeId, address } = this;
    const { scope } = process;
    const clock = virtualClock(process);
    const random = virtualRandom(process);
    const log = virtualLog(process);
    const { signal } = new AbortController();
    const owner = { clusterId, nodeId: machineIdOf(nodeId) };
    const assigns: Assign[] = [];
    const journal = this.watched(world.footing.journal(virtualJournal(this.disk, process)), assigns);
    journal.claim(`${clusterId}/${nodeId}/${this.incarnation}`);
    const machine = virtualMachine(scope, docker, `${this.machineId}-boot${this.bootId}`);
    const engine = virtualEngine(clock, scope, docker, owner, address);
    const endpoints = createEndpoints(
      world.replicas.map(({ name }) => urlOf(name)),
      random,
    );
    const transport = virtualTransport(scope, world, endpoints, {
      open: (replica, events) => world.connectAgent(this, replica, events),
      sent: (message) => this.sent(message),
      received: (message) => void (message.case === "assign" && assigns.push(message.value as Assign)),
    });
    const client = () => createClient(NodeService, transport);
    const registry = createClusterRegistry({
      ...{ clock, random, log },
      find: () => knownRegistry(journal),
      issue: (wish, within) => client().issueRegistryToken(wish, { signal: within }),
    });
    const reporter = createStatusReporter(clock);
    this.reporter = reporter;
    const isolation = { assert: async () => {}, ready: async () => {} };
    const disk = { isFull: () => this.disk.isFull, check: async () => {}, watch: async () => {} };
    const tools: Tools = {
      ...{ owner, engine, client, registry, disk, reporter },
      pushDump: world.artifacts.pushDump(scope),
      limiter: unused("a limiter of builds"),
      openLog: (streamId, replays, maxBytes) =>
        openLogStream({
          ...{ clock, streamId, replays, maxBytes, signal, log },
          append: async (request, within) => (await client().appendLog(request, { signal: within })).length,
        }),
      tails: {
        keep: async () => {},
        find: async () => null,
        drop: async () => {},
        projects: async () => [],
        dropProject: async () => {},
      },
      memory: { isShort: () => false, watch: async () => {} },
      engineWatch: createEngineWatch({ clock, engine, log }),
      images: createImages({ clock, engine, journal, registry, checkDisk: disk.check }),
      networks: createNetworks({ engine, owner, pool: "10.64.0.0/16", isolated: isolation.ready, onChange() {} }),
      proxyDir: this.gate.dir,
    };
    const work = createWork({
      ...{ clock, random, config: { ...config, address }, journal, isolation, metrics, tools, machine, signal, log },
      lookEveryMs: 10_000,
    });
    void Promise.all(runWork(work, { clock, tools, isolation, onTurn() {}, signal, log }));
    if (world.plan.hasDatabases)
      void copySampleLoop({
        ...{ clock, engine, machine, list: work.placements.list, copyLookMs: null, signal, log },
        report: async (copies) => void (await client().reportDatabases({ copies }, { signal, timeoutMs: 10_000 })),
      });
    this.readiness = { connected: false };
    await converse({
      ...{ clock, random, endpoints, journal, machine, metrics, readiness: this.readiness, signal, log },
      ...tools,
      ...work,
      identity: unused<Identity>("an identity"),
      transports: () => ({ session: transport, bulk: transport }),
      answerLogQuery: unused("an answer to who reads logs"),
      tunnels: unused("tunnels"),
      onEntrances: work.entrances.hear,
      describe: async () => ({
        ...{ address, labels: {} },
        capacity: { memoryMb: BigInt(this.memoryMb), cpuMillicores: 8_000n, pids: 10_000n, diskMb: 100_000n },
      }),
      renewal: createWake(clock),
      onReady() {},
      onRegistry() {},
    });
  }

  /** What the agent says to control, which the checks look at. */
  private sent({ case: kind, value }: Message): Message {
    const { checks } = this.world;
    if (kind === "applied") {
      const { resync, rejects } = value as { resync: boolean; rejects: { reason: string }[] };
      if (resync) checks.agents.onResync(this.nodeId, rejects[0]?.reason ?? "");
    }
    if (kind === "status" || kind === "inventory") {
      const { items, runs = [] } = value as { items: PlacementStatus[]; runs?: RunStatus[] };
      for (const each of items) checks.agents.onTold(this, each);
      for (const each of runs) checks.agents.onRunTold(this, each);
    }
    if (kind === "runStatus") checks.agents.onRunTold(this, value as RunStatus);
    if (kind === "runAccept") {
      const { attemptId, refusedBecause } = value as { attemptId: string; refusedBecause: string };
      if (refusedBecause === "") checks.agents.onRunAccept(this.machineId, attemptId);
    }
    return { case: kind, value };
  }

  /** A journal whose assignments the checks look at: what is journaled of them was accepted. */
  private watched(journal: Journal, assigns: Assign[]): Journal {
    return {
      ...journal,
      commitAssignment: (change) => {
        const assign = assigns.findLast(({ resultsIn }) => resultsIn !== "" && resultsIn === change.chain.resultsIn);
        if (assign !== undefined)
          this.world.checks.agents.onAssign(this.nodeId, journal.chain(), this.disk.state.placements, assign);
        journal.commitAssignment(change);
        assigns.splice(0, assigns.length - 4);
      },
    };
  }

  /** The agent has come to its end by itself: because it is fenced, or by a failure, after which it is started again. */
  private end(error: unknown): void {
    const { kernel, checks } = this.world;
    kernel.note(() => `${this.machineId}: the agent ends: ${error}`);
    if (!isOfTheWorld(error)) checks.onUncaught(this.machineId, error);
    this.crash(true);
    if (error instanceof FencedError) this.isFenced = true;
    else kernel.at(startsAgainMs, "start again", () => this.start());
  }

  /** The process ends at once. What it told the engine is carried out all the same. */
  crash(isNoticed: boolean): void {
    if (!this.process.alive) return;
    this.process.kill();
    this.disk.crash();
    this.world.breakConnections(this.process, isNoticed);
  }

  /** The power goes: nothing that ran runs any more. */
  powerOff(): void {
    this.crash(false);
    this.isOff = true;
    this.docker.loseUnsynced();
    this.docker.restart(Number.POSITIVE_INFINITY);
  }

  powerOn(): void {
    if (!this.isOff) return;
    this.isOff = false;
    this.bootId += 1;
    this.docker.isUp = true;
    this.gate.restart(1_000);
    this.start();
  }
}

/** Whether the world is to blame, and not the program: then it may well end. */
const isOfTheWorld = (error: unknown): boolean =>
  error instanceof FencedError || error instanceof EngineError || error instanceof DiskFull;

/** What nothing in this world comes to. */
const unused = <T extends object>(what: string): T =>
  new Proxy(() => {}, {
    get() {
      throw new Error(`there is no such thing here as ${what}`);
    },
    apply() {
      throw new Error(`there is no such thing here as ${what}`);
    },
  }) as unknown as T;
