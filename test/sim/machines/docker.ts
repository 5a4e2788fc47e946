import { type Gate, heldBack } from "@svc/agent/runs/gate";
import type { Kernel, Process, Scope, Wait } from "../kernel/kernel.ts";

export interface Container {
  name: string;
  kind: "serve" | "run";
  /** The placement or the attempt. */
  id: string;
  projectId: string;
  epoch: bigint;
  specHash: string;
  state: "created" | "running" | "exited";
  exitCode: number;
  oomKilled: boolean;
  oomScope: "unknown";
  startedAt: string | null;
  finishedAt: string | null;
  port: number;
  /** How long its program takes to answer; runs: to end. */
  takesMs: number;
  startedAtMs: number;
  claimedAtMs: number;
  /** Its program hangs. */
  isSick: boolean;
  /** Of a run: whether its command was let begin, or never will be. Others have none. */
  gate: "none" | "open" | "claimed" | "shut";
  /** When the last of its visitors' connections ends. */
  openUntilMs: number;
}

/** The engine did not do it (`failed`), or did not say whether it did. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly kind: "failed" | "conflict" | "stalled" | "unreachable";
  constructor(kind: EngineError["kind"], message: string) {
    super(message);
    this.kind = kind;
  }
}
export const isEngineTrouble = (error: unknown): boolean =>
  error instanceof EngineError && (error.kind === "stalled" || error.kind === "unreachable");

/** Who hears of what containers do, for the checks. */
export interface ContainerWitness {
  onStart(container: Container, machineId: string): void;
  /** `byEngine`: nobody ordered it. */
  onStop(container: Container, machineId: string, why: "ordered" | "exited" | "engine"): void;
  onOrder(order: "create" | "start" | "stop" | "remove" | "kill", name: string, machineId: string): void;
}

const deadlineMs = 30_000;
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
  removesEndedRuns = false;
  private life = 0;
  private readonly listeners = new Set<(name: string) => void>();

  readonly kernel: Kernel;
  /** The machine, whose clock it has. It does not stand still with the agent. */
  readonly process: Process;
  readonly machineId: string;
  readonly witness: ContainerWitness;

  constructor(kernel: Kernel, process: Process, machineId: string, witness: ContainerWitness) {
    this.kernel = kernel;
    this.process = process;
    this.machineId = machineId;
    this.witness = witness;
  }

  listen(listener: (name: string) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private tell(name: string): void {
    if (this.kernel.nowMs < this.deafUntilMs) return;
    for (const listener of this.listeners)
      this.kernel.at(this.process.random.between(0.5, 20), "engine event", () => listener(name));
  }

  private readonly now = (): string => new Date(this.process.wallMs()).toISOString();

  /** An order that `effect` carries out some time later, whoever still waits for it. */
  private order<T>(tag: string, effect: () => T, takesMs: number): Wait<T> {
    return (done, fail, scope: Scope) => {
      const { kernel, process } = this;
      const { life } = this;
      let isOver = false;
      const finish = (act: () => void) => {
        if (isOver || scope.isOver) return;
        isOver = true;
        timer.cancel();
        act();
      };
      const timer = scope.after(deadlineMs, "engine deadline", () =>
        finish(() => fail(new EngineError("stalled", `${tag}: no answer`))),
      );
      if (!this.isUp) {
        kernel.at(5, "engine refused", () => finish(() => fail(new EngineError("unreachable", tag))), scope.process);
        return;
      }
      const slowMs = process.random.chance(this.slowShare) ? process.random.between(200, 40_000) : 0;
      const attempt = () => {
        // An engine that was restarted has forgotten what it was told.
        if (life !== this.life || !this.isUp) {
          return void kernel.at(
            1,
            "engine gone",
            () => finish(() => fail(new EngineError("unreachable", tag))),
            scope.process,
          );
        }
        if (kernel.nowMs < this.hungUntilMs) {
          return void kernel.at(this.hungUntilMs - kernel.nowMs + 1, tag, attempt);
        }
        let answer: () => void;
        try {
          const result = effect();
          answer = () => done(result);
        } catch (error) {
          answer = () => fail(error);
        }
        kernel.at(process.random.between(0.5, 5), "engine answer", () => finish(answer), scope.process);
      };
      kernel.at(takesMs * process.random.between(0.5, 2) + slowMs, tag, attempt);
    };
  }

  find(name: string): Wait<Container | null> {
    return this.order("docker inspect", () => this.containers.get(name) ?? null, 2);
  }

  list(): Wait<Container[]> {
    return this.order("docker list", () => [...this.containers.values()], 5);
  }

  /** A name that is taken: whoever made it gave the same order before, so that it is there is enough. */
  create(
    container: Omit<
      Container,
      | "state"
      | "exitCode"
      | "oomKilled"
      | "oomScope"
      | "startedAt"
      | "finishedAt"
      | "startedAtMs"
      | "claimedAtMs"
      | "isSick"
      | "openUntilMs"
      | "gate"
    >,
  ): Wait<void> {
    this.witness.onOrder("create", container.name, this.machineId);
    return this.order(
      "docker create",
      () => {
        const known = this.containers.get(container.name);
        if (known !== undefined) {
          if (known.id !== container.id || known.specHash !== container.specHash) {
            throw new EngineError("conflict", "the name is taken by something else");
          }
          return;
        }
        const fresh = {
          exitCode: 0,
          oomKilled: false,
          oomScope: "unknown" as const,
          startedAt: null,
          finishedAt: null,
          startedAtMs: 0,
          claimedAtMs: 0,
          isSick: false,
          openUntilMs: 0,
          gate: container.kind === "run" ? ("open" as const) : ("none" as const),
        };
        this.containers.set(container.name, { ...container, ...fresh, state: "created" });
      },
      60,
    );
  }

  start(name: string): Wait<void> {
    this.witness.onOrder("start", name, this.machineId);
    return this.order(
      "docker start",
      () => {
        const container = this.containers.get(name);
        if (container === undefined) throw new EngineError("failed", "no such container");
        if (container.state === "running") return;
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
        if (isOn()) this.exit(container, 0, "exited");
      });
    });
  }

  /** The agent's own look at a gate, to which no engine is needed. */
  readGate(name: string): Exclude<Gate, "none"> {
    const gate = this.containers.get(name)?.gate ?? "none";
    return gate === "none" ? "gone" : gate;
  }

  shutGate(name: string): Exclude<Gate, "none"> {
    const container = this.containers.get(name);
    if (container?.gate === "open") container.gate = "shut";
    return this.readGate(name);
  }

  /** The power goes: what was written a moment before is lost with it. */
  loseUnsynced(): void {
    for (const container of this.containers.values()) {
      const isFresh = this.kernel.nowMs - container.claimedAtMs < unsyncedMs;
      if (container.gate === "claimed" && isFresh && this.process.random.chance(0.5)) container.gate = "open";
    }
  }

  stop(name: string): Wait<void> {
    this.witness.onOrder("stop", name, this.machineId);
    return this.order(
      "docker stop",
      () => {
        const container = this.containers.get(name);
        if (container?.state === "running") this.exit(container, 143, "ordered");
      },
      200,
    );
  }

  kill(name: string): Wait<void> {
    this.witness.onOrder("kill", name, this.machineId);
    return this.order(
      "docker kill",
      () => {
        const container = this.containers.get(name);
        if (container?.state === "running") this.exit(container, 137, "ordered");
      },
      20,
    );
  }

  remove(name: string): Wait<void> {
    this.witness.onOrder("remove", name, this.machineId);
    return this.order(
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
  }

  /** Whether a program answers its health path at the moment. */
  isAnswering(name: string): boolean {
    const container = this.containers.get(name);
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
    for (const each of this.containers.values()) {
      if (each.kind === "serve" && each.state === "running" && each.port === port) return true;
    }
    return false;
  }

  // ------------------------------------------------------------------ faults

  crashProgram(index: number): void {
    const running = [...this.containers.values()].filter(({ state, kind }) => state === "running" && kind === "serve");
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
    this.kernel.at(downMs, "engine starts", () => {
      this.isUp = true;
      this.tell("");
    });
  }

  loseData(): void {
    this.restart(1_000);
    this.containers.clear();
    this.engineId = `engine-${this.life + 1}`;
  }
}
