import type { Assign, RunGrant, RunOffer, Verdict } from "@svc/proto/node";
import type { Cores } from "../cores.ts";
import { createBell, type Kernel, type Process, pause, type Scope, type Work, wait } from "../kernel/kernel.ts";
import type { World } from "../world/world.ts";
import { AgentPlacements } from "./agent-placements.ts";
import { AgentRuns } from "./agent-runs.ts";
import { Docker, EngineError } from "./docker.ts";
import { Journal } from "./journal.ts";
import { type Message, runSession } from "./link.ts";
import { StatusReporter } from "./reporter.ts";

/** What the parts of an agent use. */
export interface AgentParts {
  world: World;
  kernel: Kernel;
  process: Process;
  /** Which machine: a clone has another one, and the same node. */
  machineId: string;
  nodeId: string;
  address: string;
  bootId: string;
  docker: Docker;
  journal: Journal;
  reporter: StatusReporter;
  cores: Cores;
}

const surveyEveryMs = 30_000;
const inventoryPart = 200;

/** One machine with an agent: what is on its disk and in its engine outlives the agent's process. */
export class AgentMachine {
  readonly process: Process;
  readonly docker: Docker;
  readonly journal: Journal;
  placements: AgentPlacements | null = null;
  runs: AgentRuns | null = null;
  reporter: StatusReporter | null = null;
  isFenced = false;
  /** Its power is off, or it is to stay down. */
  isOff = false;
  /** Nobody will ever switch it on again. */
  staysDown = false;
  private lives = 0;
  bootId = 1;
  isConnected = false;

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
    this.docker = new Docker(world.kernel, this.process, machineId, world.checks);
    this.docker.removesEndedRuns = !world.cores.shell.keepsRunContainers;
    this.journal = new Journal(world.kernel, this.process, world.cores.shell.syncsJournal);
    this.journal.onWrite = () => world.onJournalWrite(this);
  }

  get address(): string {
    return this.nodeId;
  }

  start(): void {
    if (this.process.alive || this.isFenced || this.isOff) return;
    this.process.start();
    this.lives += 1;
    const { world, process, docker, journal } = this;
    const { scope } = process;
    const reporter = new StatusReporter(scope);
    const parts: AgentParts = {
      ...{ world, process, docker, journal, reporter },
      bootId: `${this.machineId}-boot${this.bootId}`,
      kernel: world.kernel,
      cores: world.cores,
      machineId: this.machineId,
      nodeId: this.nodeId,
      address: this.address,
    };
    this.reporter = reporter;
    const placements = new AgentPlacements(parts, scope);
    const runs = new AgentRuns(parts, scope);
    this.placements = placements;
    this.runs = runs;
    this.isConnected = false;
    const unlisten = docker.listen((name) => {
      world.kernel.at(
        0,
        "heard engine",
        () => {
          placements.noteContainer(name);
          runs.noteContainer(name);
          if (name === "") surveyBell.ring();
        },
        process,
      );
    });
    this.unlisten();
    this.unlisten = unlisten;
    const surveyBell = createBell();
    scope.spawn(this.survey(placements, runs, surveyBell));
    scope.spawn(this.converse(scope, placements, runs, reporter));
  }

  private unlisten: () => void = () => {};

  private *survey(placements: AgentPlacements, runs: AgentRuns, bell: ReturnType<typeof createBell>): Work {
    for (;;) {
      try {
        const containers = yield* wait(this.docker.list());
        yield* placements.survey(containers);
        yield* runs.survey(containers);
      } catch (error) {
        if (!(error instanceof EngineError) && !(error instanceof Error && error.name === "DiskFull")) throw error;
      }
      yield* wait(bell.wait(surveyEveryMs));
    }
  }

  private *converse(scope: Scope, placements: AgentPlacements, runs: AgentRuns, reporter: StatusReporter): Work {
    const { world, journal } = this;
    const instanceId = `${this.machineId}.${this.lives}`;
    yield* runSession({
      scope,
      connect: (turn, on) => world.connectNode(this, turn, on),
      hello: () => ({
        case: "hello",
        value: {
          clusterEpoch: journal.state.chain.clusterEpoch,
          bootId: `${this.machineId}-boot${this.bootId}`,
          instanceId,
          nodeId: this.nodeId,
          incarnation: this.incarnation,
          memoryMb: this.memoryMb,
        },
      }),
      renewal: () => ({ case: "renew", value: { diskFull: journal.isFull } }),
      onMessage: (message, send) => {
        switch (message.case) {
          case "welcome": {
            this.isConnected = true;
            const items = placements.statuses();
            for (let at = 0; at === 0 || at < items.length; at += inventoryPart) {
              const final = at + inventoryPart >= items.length;
              const part = items.slice(at, at + inventoryPart);
              send({ case: "inventory", value: { items: part, runs: final ? runs.statuses() : [], final } });
            }
            runs.open((kind, value) => send({ case: kind, value }));
            reporter.open((batchSeq, batch) => send({ case: "status", value: { batchSeq, items: batch } }));
            return;
          }
          case "assign":
            return send({ case: "applied", value: placements.assign(message.value as Assign) });
          case "statusAck":
            return reporter.acknowledge((message.value as { batchSeq: bigint }).batchSeq);
          case "verdict":
            return placements.decide(message.value as Verdict);
          case "runOffer":
            return runs.offer(message.value as RunOffer);
          case "runGrant":
            return runs.grant(message.value as RunGrant);
          case "runCancel":
            return runs.cancel((message.value as { attemptId: string }).attemptId);
          case "runAck":
            return runs.acknowledge((message.value as { attemptId: string }).attemptId);
        }
      },
      onClose: () => {
        this.isConnected = false;
        runs.close();
        reporter.close();
      },
      onFenced: () => this.leave(placements, runs),
    });
  }

  /** The node was fenced: everything stops, and the identity is forgotten. */
  private *leave(placements: AgentPlacements, runs: AgentRuns): Work {
    this.world.kernel.note(() => `${this.machineId}: fenced`);
    for (;;) {
      try {
        placements.clear();
        while (!placements.isCleared) yield* wait(pause(100));
        yield* runs.clear();
        break;
      } catch (error) {
        if (!(error instanceof EngineError) && !(error instanceof Error && error.name === "DiskFull")) throw error;
        yield* wait(pause(2_000));
      }
    }
    this.isFenced = true;
    this.unlisten();
    this.process.kill();
  }

  /** The process ends at once. What it told the engine is carried out all the same. */
  crash(isNoticed: boolean): void {
    if (!this.process.alive) return;
    this.process.kill();
    this.unlisten();
    this.isConnected = false;
    this.journal.crash();
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
    this.start();
  }
}

export type { Message };
