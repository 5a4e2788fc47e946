import { EngineError } from "@svc/agent/engine/errors";
import { heldBack } from "@svc/agent/runs/gate";
import type { Kernel, Process, Scope } from "../kernel/kernel.ts";
import { createAnswer, enter } from "../kernel/ports.ts";
import { type Dump, writeDump } from "./dumps.ts";
import { type Keeper, keepCopy } from "./keepers.ts";
import { DatabaseServers, type ServerMade, type ServerWitness, type Volume } from "./servers.ts";

/** What a container is made with. */
export interface Made {
  name: string;
  kind: "serve" | "run" | "database" | "dump" | "keeper";
  /** The placement or the attempt. */
  id: string;
  labels: Readonly<Record<string, string>>;
  image: string;
  network: string;
  /** Of a run: `sleep <seconds>; exit <code>`, or anything else, which takes a while and succeeds. */
  command: string;
  port: number;
  limits: { memoryMb: number; cpuMillicores: number; pidsLimit: number };
  reserved: { memoryMb: number; cpuMillicores: number };
  /** Of a database. */
  server?: ServerMade;
  /** Of what reads one out. */
  dump?: Dump;
  /** Of what keeps a copy of one. */
  keeper?: Keeper;
}

export type Container = Made & {
  /** Of this one: another with its name has another. */
  instance: string;
  pid: number;
  state: "created" | "running" | "exited";
  exitCode: number;
  startedAt: string | null;
  finishedAt: string | null;
  /** How long its program takes to answer; runs: to end. */
  takesMs: number;
  /** What its program ends with, if nobody ends it before. */
  endsWith: number;
  startedAtMs: number;
  claimedAtMs: number;
  /** Its program hangs. */
  isSick: boolean;
  /**
   * Of a run: whether its command was let begin, or never will be; `new` before anybody but root may come to it. Others
   * have none.
   */
  gate: "none" | "new" | "open" | "claimed" | "shut";
  /** When the last of its visitors' connections ends. */
  openUntilMs: number;
};

/** Who hears of what containers do, for the checks. */
export interface ContainerWitness {
  readonly databases: ServerWitness;
  onStart(container: Container, machineId: string): void;
  /** `byEngine`: nobody ordered it. */
  onStop(container: Container, machineId: string, why: "ordered" | "exited" | "engine"): void;
  onOrder(order: "create" | "start" | "stop" | "remove" | "kill", name: string, machineId: string): void;
}

interface Listener {
  tell(name: string): void;
  end(): void;
}

/** How long the kernel keeps what a container writes before it is on the disk. */
const unsyncedMs = 30_000;

/**
 * One machine's container engine. Orders that it has taken are carried out even when whoever gave them is gone, and a
 * start of an exited container runs it again, as in the real one.
 */
export class Docker {
  readonly containers = new Map<string, Container>();
  engineId = "engine-1";
  isUp = true;
  hungUntilMs = 0;
  /** Share of orders that take long. */
  slowShare = 0;
  /** Until then nobody hears of events. */
  deafUntilMs = 0;
  /** Until then it refuses some of what it is told. */
  failingUntilMs = 0;
  /** The server that a keeper comes to through its door, and what time it is there; null: it is let in to none. */
  reach: (keeper: Keeper) => { volume: Volume; atMs: number } | null = () => null;
  /** Ports at which programs of others listen. */
  readonly foreignPorts = new Set<number>();
  removesEndedRuns = false;
  private life = 0;
  private readonly listeners = new Set<Listener>();
  /** References of what was pulled, and networks by their name. */
  readonly images = new Set<string>();
  readonly networks = new Map<string, { subnet: string; gateway: string; labels: Readonly<Record<string, string>> }>();
  private made = 0;

  readonly kernel: Kernel;
  /** The machine, whose clock it has. It does not stand still with the agent. */
  readonly process: Process;
  readonly machineId: string;
  readonly witness: ContainerWitness;
  readonly databases: DatabaseServers;

  constructor(kernel: Kernel, process: Process, machineId: string, witness: ContainerWitness) {
    this.kernel = kernel;
    this.process = process;
    this.machineId = machineId;
    this.witness = witness;
    this.databases = new DatabaseServers(kernel, process, machineId, witness.databases);
  }

  /** Tells a process of events until it calls the result, or the engine ends the connection. */
  listen({ process }: Scope, hear: { event(name: string): void; ended(): void }): () => void {
    const { life } = process;
    const at = (delayMs: number, tag: string, act: () => void): void => {
      this.kernel.at(delayMs, tag, () => void (process.life === life && enter(process, act)), process);
    };
    const listener: Listener = {
      tell: (name) => at(this.process.random.between(0.5, 20), "engine event", () => hear.event(name)),
      end: () => at(1, "engine gone", hear.ended),
    };
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private tell(name: string): void {
    if (this.kernel.nowMs < this.deafUntilMs) return;
    for (const listener of this.listeners) listener.tell(name);
  }

  private readonly now = (): string => new Date(this.process.wallMs()).toISOString();

  /** An order that `effect` carries out some time later, whoever still waits for it. */
  order<T>(scope: Scope, tag: string, effect: () => T, takesMs: number): Promise<T> {
    const { kernel, process, life } = this;
    const answer = createAnswer<T>(scope);
    const gone = (afterMs: number): void => answer.reject(new EngineError("unreachable", tag), afterMs, "engine gone");
    const attempt = (): void => {
      // An engine that was restarted has forgotten what it was told.
      if (life !== this.life || !this.isUp) {
        gone(1);
        return;
      }
      if (kernel.nowMs < this.hungUntilMs) return void kernel.at(this.hungUntilMs - kernel.nowMs + 1, tag, attempt);
      const afterMs = process.random.between(0.5, 5);
      try {
        if (kernel.nowMs < this.failingUntilMs && process.random.chance(0.4))
          throw new EngineError("failed", `${tag}: it does not work now`);
        answer.resolve(effect(), afterMs, "engine answer");
      } catch (error) {
        answer.reject(error, afterMs, "engine answer");
      }
    };
    if (scope.isOver) return answer.promise;
    if (!this.isUp) gone(5);
    else {
      const slowMs = process.random.chance(this.slowShare) ? process.random.between(200, 40_000) : 0;
      kernel.at(takesMs * process.random.between(0.5, 2) + slowMs, tag, attempt);
    }
    return answer.promise;
  }

  /** A name that is taken is refused. */
  create(scope: Scope, made: Made): Promise<void> {
    this.witness.onOrder("create", made.name, this.machineId);
    const { random } = this.process;
    const [, seconds, code] = /^sleep (\d+); exit (\d+)$/.exec(made.command) ?? [];
    const usualMs = made.kind === "run" ? random.between(200, 6_000) : random.between(100, 3_000);
    const takesMs = seconds === undefined ? usualMs : Number(seconds) * 1_000;
    return this.order(
      scope,
      "docker create",
      () => {
        if (made.server !== undefined) this.databases.provide(made.server);
        else if (made.keeper !== undefined) this.databases.provideCopy(made.keeper.copyId, made.keeper.engine);
        else if (made.dump === undefined && !this.images.has(made.image))
          throw new EngineError("not-found", `No such image: ${made.image}`);
        if (this.containers.has(made.name)) throw new EngineError("conflict", "the name is taken");
        this.made += 1;
        this.containers.set(made.name, {
          ...made,
          ...{
            instance: `${this.engineId}.${this.made}`,
            pid: 1_000 + this.made,
            state: "created",
            exitCode: 0,
            takesMs,
            endsWith: Number(code ?? 0),
          },
          ...{ startedAt: null, finishedAt: null, startedAtMs: 0, claimedAtMs: 0, isSick: false, openUntilMs: 0 },
          gate: made.kind === "run" ? "new" : "none",
        });
      },
      60,
    );
  }

  start(scope: Scope, name: string): Promise<void> {
    this.witness.onOrder("start", name, this.machineId);
    return this.order(
      scope,
      "docker start",
      () => {
        const container = this.containers.get(name);
        if (container === undefined) throw new EngineError("not-found", "no such container");
        if (container.network !== "" && !this.networks.has(container.network))
          throw new EngineError("failed", `network ${container.network} not found`);
        if (container.state === "running") return;
        if (container.kind === "serve" && this.foreignPorts.has(container.port))
          throw new EngineError("failed", "address already in use");
        for (const other of this.containers.values()) {
          if (
            other !== container &&
            other.state === "running" &&
            other.kind === "serve" &&
            other.port === container.port &&
            container.kind === "serve"
          ) {
            throw new EngineError("failed", "port is already allocated");
          }
        }
        container.state = "running";
        container.startedAt = this.now();
        container.finishedAt = null;
        container.startedAtMs = this.kernel.nowMs;
        container.isSick = false;
        if (container.kind === "run") this.begin(container);
        else this.witness.onStart(container, this.machineId);
        if (container.server !== undefined)
          this.databases.begin(container, container.server, (code) => this.exit(container, code, "exited"));
        if (container.dump !== undefined)
          writeDump(this, container, container.dump, (code) => this.exit(container, code, "exited"));
        if (container.keeper !== undefined) keepCopy(this, container, container.keeper);
        this.tell(name);
      },
      80,
    );
  }

  /** What a run's container does by itself: it claims its gate, and then is its command. */
  private begin(container: Container): void {
    const { startedAtMs } = container;
    const isOn = (): boolean => container.state === "running" && container.startedAtMs === startedAtMs;
    const { random } = this.process;
    // On a machine that has much to do it is scheduled late.
    const firstMs = random.chance(0.2) ? random.between(100, 5_000) : random.between(0.5, 30);
    this.kernel.at(firstMs, "container at its gate", () => {
      if (!isOn()) return;
      if (container.gate !== "open") return this.exit(container, heldBack, "ordered");
      container.gate = "claimed";
      container.claimedAtMs = this.kernel.nowMs;
      this.witness.onStart(container, this.machineId);
      this.kernel.at(container.takesMs, "command ends", () => {
        if (isOn()) this.exit(container, container.endsWith, "exited");
      });
    });
  }

  /** The container whose gate, sockets or port something is. */
  only(is: (container: Container) => boolean): Container | undefined {
    for (const container of this.containers.values()) if (is(container)) return container;
    return undefined;
  }

  /** The power goes: what was written a moment before is lost with it. */
  loseUnsynced(): void {
    for (const container of this.containers.values()) {
      const isFresh = this.kernel.nowMs - container.claimedAtMs < unsyncedMs;
      if (container.gate === "claimed" && isFresh && this.process.random.chance(0.5)) container.gate = "open";
    }
  }

  stop(scope: Scope, name: string): Promise<void> {
    this.witness.onOrder("stop", name, this.machineId);
    return this.order(
      scope,
      "docker stop",
      () => {
        const container = this.containers.get(name);
        if (container?.state === "running") this.exit(container, 143, "ordered");
      },
      200,
    );
  }

  kill(scope: Scope, name: string): Promise<void> {
    this.witness.onOrder("kill", name, this.machineId);
    return this.order(
      scope,
      "docker kill",
      () => {
        const container = this.containers.get(name);
        if (container?.state === "running") this.exit(container, 137, "ordered");
      },
      20,
    );
  }

  remove(scope: Scope, name: string): Promise<void> {
    this.witness.onOrder("remove", name, this.machineId);
    return this.order(
      scope,
      "docker remove",
      () => {
        const container = this.containers.get(name);
        if (container === undefined) return;
        if (container.state === "running") this.exit(container, 137, "ordered");
        this.containers.delete(name);
        this.tell(name);
      },
      40,
    );
  }

  private exit(container: Container, exitCode: number, why: "ordered" | "exited" | "engine"): void {
    container.state = "exited";
    container.exitCode = exitCode;
    container.finishedAt = this.now();
    container.openUntilMs = 0;
    this.witness.onStop(container, this.machineId, why);
    if (this.removesEndedRuns && container.kind === "run") this.containers.delete(container.name);
    this.tell(container.name);
    for (const wake of container.dump?.waiting ?? []) wake();
  }

  /** Whether a program answers its health path at the moment. */
  isAnswering(name: string): boolean {
    const container = this.containers.get(name);
    if (container?.server !== undefined) return this.databases.isAnswering(container);
    return (
      container?.state === "running" &&
      !container.isSick &&
      this.kernel.nowMs - container.startedAtMs >= container.takesMs
    );
  }

  /** Somebody has a connection to the app at `port`, and keeps it for so long at least. */
  keepOpen(port: number, forMs: number): void {
    for (const each of this.containers.values()) {
      if (each.kind !== "serve" || each.state !== "running" || each.port !== port) continue;
      each.openUntilMs = Math.max(each.openUntilMs, this.kernel.nowMs + forMs);
    }
  }

  /** What the kernel's tables tell: somebody has a connection to the app. */
  isOpen(name: string): boolean {
    return this.kernel.nowMs < (this.containers.get(name)?.openUntilMs ?? 0);
  }

  isPortTaken(port: number): boolean {
    return (
      this.foreignPorts.has(port) ||
      this.only((each) => each.kind === "serve" && each.state === "running" && each.port === port) !== undefined
    );
  }

  // ------------------------------------------------------------------ faults

  crashProgram(index: number, of: "serve" | "database" | "dump" | "keeper" = "serve"): void {
    const running = [...this.containers.values()].filter(({ state, kind }) => state === "running" && kind === of);
    const container = running[index % Math.max(running.length, 1)];
    if (container !== undefined) this.exit(container, 1, "exited");
  }

  sicken(index: number, forMs: number): void {
    const running = [...this.containers.values()].filter(({ state, kind }) => state === "running" && kind === "serve");
    const container = running[index % Math.max(running.length, 1)];
    if (container === undefined) return;
    container.isSick = true;
    this.kernel.at(forMs, "well again", () => {
      container.isSick = false;
    });
  }

  /** The engine ends, and with it everything that runs; it comes back later. */
  restart(downMs: number): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.life += 1;
    for (const container of [...this.containers.values()])
      if (container.state === "running") this.exit(container, 137, "engine");
    for (const listener of this.listeners) listener.end();
    this.listeners.clear();
    this.kernel.at(downMs, "engine starts", () => {
      this.isUp = true;
    });
  }

  /** Somebody tidies up: what no container has goes. */
  prune(): void {
    const all = [...this.containers.values()];
    for (const reference of this.images)
      if (!all.some(({ image }) => image === reference)) this.images.delete(reference);
    for (const name of this.networks.keys())
      if (!all.some(({ network, state }) => network === name && state === "running")) this.networks.delete(name);
  }

  loseData(): void {
    this.restart(1_000);
    for (const { dump } of this.containers.values()) for (const wake of dump?.waiting ?? []) wake();
    this.containers.clear();
    this.databases.lose();
    this.images.clear();
    this.networks.clear();
    this.engineId = `engine-${this.life + 1}`;
  }
}
