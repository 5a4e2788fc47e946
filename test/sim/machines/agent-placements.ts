import { create } from "@bufbuild/protobuf";
import type { PlacementRecord } from "@svc/agent/journal/records";
import { restlessPauseMs, retryDelayMs } from "@svc/agent/placements/crash";
import { newRecord, removedAtOnce, withSpec } from "@svc/agent/placements/task";
import { isTerminal, type Step, type View } from "@svc/agent/placements/view";
import {
  type Applied,
  AppliedSchema,
  type Assign,
  HealthState,
  Observed,
  PlacementSchema,
  type PlacementStatus,
  PlacementStatusSchema,
  type Verdict,
  Verdict_Decision,
} from "@svc/proto/node";
import { pause, type Scope, type Wait, type Work, wait } from "../kernel/kernel.ts";
import type { AgentParts } from "./agent.ts";
import { type Container, EngineError, isEngineTrouble } from "./docker.ts";
import { DiskFull } from "./journal.ts";

type Wake = "desired" | "engine";

const idle = new Set<Step["do"]>(["rest", "wait", "prove", "watch", "drain"]);
const attemptsMax = 3;
const watchEveryMs = 10_000;
const missesMax = 3;
const drainLookMs = 250;
const restsMs = 10 * 60_000;

/** A step that did not work, and what people are told. */
class TaskFailure extends Error {
  override readonly name = "TaskFailure";
  readonly isTransient: boolean;
  constructor(message: string, isTransient: boolean) {
    super(message);
    this.isTransient = isTransient;
  }
}

export const containerName = (placementId: string): string => `svc-p-${placementId}`;

/** Everything that control placed on the node: mirrors `agent/src/placements/{placements,actor,runner,task}.ts`. */
export class AgentPlacements {
  private readonly actors = new Map<string, Actor>();
  private readonly resting = new Map<number, number>();
  /** How often the agent asked control to begin again. */
  resyncs = 0;

  readonly parts: AgentParts;
  readonly scope: Scope;

  constructor(parts: AgentParts, scope: Scope) {
    this.parts = parts;
    this.scope = scope;
    for (const id of parts.journal.state.placements.keys()) this.enter(id);
  }

  private enter(id: string): void {
    this.actors.set(id, new Actor(this, id));
  }

  record(id: string): PlacementRecord | undefined {
    return this.parts.journal.state.placements.get(id);
  }

  statuses(): PlacementStatus[] {
    return [...this.parts.journal.state.placements.values()].map(({ status }) => status);
  }

  private forget(id: string): void {
    this.actors.get(id)?.stop();
    this.actors.delete(id);
    this.parts.journal.commit((state) => void state.placements.delete(id));
  }

  assign(assign: Assign): Applied {
    const { parts } = this;
    const { journal, cores } = parts;
    const { chain, placements } = journal.state;
    const held = new Map(
      [...placements].map(([id, { placement, status }]) => {
        const { epoch, desired, specHash, resources } = placement;
        return [id, { epoch, desired, specHash, isVisited: true, resources, observed: status.observed }];
      }),
    );
    const decision = cores.apply(chain, held, assign);
    parts.world.checks.onAssign(parts.nodeId, chain, held, assign, decision);
    if (decision.outcome !== "accept") {
      this.resyncs += 1;
      parts.world.checks.onResync(parts.nodeId, `${decision.outcome}: ${decision.reason}`);
      return create(AppliedSchema, { resultsIn: chain.resultsIn, resync: true });
    }
    const changed = new Map<string, PlacementRecord>();
    const current = (id: string) => changed.get(id) ?? placements.get(id);
    for (const placement of decision.upserts) {
      const known = current(placement.placementId);
      changed.set(
        placement.placementId,
        known === undefined
          ? newRecord(placement, parts.process.now())
          : { ...known, placement: withSpec(placement, known) },
      );
    }
    for (const id of decision.removes) {
      const known = current(id);
      if (known !== undefined) changed.set(id, removed(known));
    }
    const adopted = decision.adopted.filter((id) => !decision.removes.includes(id));
    for (const [ids, orphan] of [[decision.orphans, true] as const, [adopted, false] as const]) {
      for (const id of ids) {
        const known = current(id);
        if (known !== undefined && known.orphan !== orphan) changed.set(id, { ...known, orphan });
      }
    }
    const gone = decision.removes.filter((id) => placements.get(id)?.status.observed === Observed.REMOVED);
    journal.commit((state) => {
      state.chain = decision.chain;
      for (const [id, record] of changed) state.placements.set(id, record);
      for (const id of gone) state.placements.delete(id);
    });
    for (const id of gone) {
      this.actors.get(id)?.stop();
      this.actors.delete(id);
    }
    for (const id of changed.keys()) if (!gone.includes(id)) this.took(id);
    for (const id of decision.orphans) if (this.record(id)?.status.observed === Observed.REMOVED) this.forget(id);
    return create(AppliedSchema, { resultsIn: decision.chain.resultsIn });
  }

  private took(id: string): void {
    const actor = this.actors.get(id);
    if (actor === undefined) this.enter(id);
    else actor.wake("desired");
  }

  private save(record: PlacementRecord): void {
    const id = record.placement.placementId;
    this.parts.journal.commit((state) => void state.placements.set(id, record));
    this.took(id);
  }

  decide({ placementId, decision }: Verdict): void {
    const record = this.record(placementId);
    if (record === undefined) return;
    if (decision === Verdict_Decision.ADOPT) {
      this.save({ ...record, orphan: false });
      return;
    }
    if (decision !== Verdict_Decision.KILL) return;
    if (record.status.observed === Observed.REMOVED) {
      this.forget(placementId);
      return;
    }
    this.save(removed(record));
  }

  /** The node was fenced. */
  clear(): void {
    for (const record of [...this.parts.journal.state.placements.values()]) {
      this.save({ ...record, placement: removedAtOnce(record.placement) });
    }
  }

  get isCleared(): boolean {
    return [...this.parts.journal.state.placements.values()].every(
      ({ status }) => status.observed === Observed.REMOVED,
    );
  }

  noteContainer(name: string): void {
    for (const [id, actor] of this.actors) if (containerName(id) === name) actor.wake("engine");
  }

  *survey(containers: readonly Container[]): Work {
    for (const container of containers) {
      const { id } = container;
      if (container.kind !== "serve" || this.actors.has(id)) continue;
      if (container.state === "created") {
        yield* wait(this.parts.docker.remove(container.name));
        continue;
      }
      const placement = create(PlacementSchema, {
        placementId: id,
        epoch: container.epoch,
        specHash: container.specHash,
        projectId: container.projectId,
      });
      const record = newRecord(placement, this.parts.process.now());
      record.status.observed = container.state === "running" ? Observed.RUNNING : Observed.STOPPED;
      this.save({ ...record, orphan: true, memory: { ...record.memory, hostPort: container.port } });
    }
    for (const actor of this.actors.values()) actor.wake("engine");
    for (const record of [...this.parts.journal.state.placements.values()]) {
      if (record.orphan && record.status.observed === Observed.REMOVED) this.forget(record.placement.placementId);
    }
  }

  // ------------------------------------------------------------------- ports

  private isHeld(port: number): boolean {
    return [...this.parts.journal.state.placements.values()].some((record) => heldPort(record) === port);
  }

  takePort(): number {
    const nowMs = this.parts.process.monoMs();
    for (const isRestingToo of [false, true]) {
      for (let port = 20_000; port < 20_040; port += 1) {
        if (this.isHeld(port) || this.parts.docker.isPortTaken(port)) continue;
        if (!isRestingToo && (this.resting.get(port) ?? 0) > nowMs) continue;
        return port;
      }
    }
    throw new TaskFailure("no port left", true);
  }

  rest(port: number): void {
    this.resting.set(port, this.parts.process.monoMs() + restsMs);
  }
}

const removed = (record: PlacementRecord): PlacementRecord => ({
  ...record,
  orphan: true,
  placement: removedAtOnce(record.placement),
});

const heldPort = ({ status, memory }: PlacementRecord): number =>
  status.observed === Observed.REMOVED ? 0 : memory.hostPort;

interface Change {
  observed?: Observed;
  health?: HealthState;
  upstream?: string;
  restarted?: boolean;
  memory?: Partial<PlacementRecord["memory"]>;
}

/** The one who acts for a placement: one step at a time, the newest wish first. */
class Actor {
  private readonly scope: Scope;
  private isWoken = false;
  /** What is waited for, and which wakes end it. */
  private current: { endedBy: readonly Wake[]; end: () => void } | null = null;
  private attempts = 0;
  private failed: Step["do"] | null = null;
  private troubles = 0;
  private readonly moves = new Map<Step["do"], number>();
  private hasCalmedDown = false;
  private imageReady = false;

  private readonly all: AgentPlacements;
  private readonly id: string;

  constructor(all: AgentPlacements, id: string) {
    this.all = all;
    this.id = id;
    this.scope = all.scope.child();
    this.scope.spawn(this.live());
  }

  stop(): void {
    this.scope.end();
  }

  wake(why: Wake): void {
    this.isWoken = true;
    if (why === "desired") this.moves.clear();
    if (this.current?.endedBy.includes(why)) this.current.end();
  }

  private get record(): PlacementRecord {
    const record = this.all.record(this.id);
    if (record === undefined) throw new Error(`no record of ${this.id}`);
    return record;
  }

  /** Journals the change, then reports it. An observed state never goes back. */
  private update({ memory, ...change }: Change): void {
    const { record } = this;
    const { status } = record;
    const next: PlacementRecord = {
      ...record,
      memory: { ...record.memory, ...memory },
      status:
        Object.keys(change).length === 0
          ? status
          : create(PlacementStatusSchema, {
              placementId: status.placementId,
              epoch: status.epoch,
              specHash: status.specHash,
              statusSeq: status.statusSeq + 1n,
              observed: Math.max(status.observed, change.observed ?? status.observed) as Observed,
              health: change.health ?? status.health,
              restartSeq: status.restartSeq + (change.restarted === true ? 1 : 0),
              upstream: change.upstream ?? status.upstream,
              changedAt: this.all.parts.process.now().toISOString(),
            }),
    };
    const { parts } = this.all;
    parts.journal.commit((state) => void state.placements.set(this.id, next));
    parts.reporter.report(next.status);
  }

  /** Waits, unless a wake that counts comes first. True when it did. */
  private sleep(ms: number, endedBy: readonly Wake[]): Wait<boolean> {
    return (done, _fail, scope) => {
      let isOver = false;
      const finish = (isEnded: boolean) => {
        if (isOver) return;
        isOver = true;
        timer.cancel();
        this.current = null;
        done(isEnded);
      };
      const timer = scope.after(Math.min(ms, 3_600_000), "sleep", () => finish(false));
      this.current = { endedBy, end: () => void scope.after(0, "woken", () => finish(true)) };
    };
  }

  private *live(): Work {
    for (;;) {
      try {
        yield* this.turn();
      } catch (error) {
        if (!(error instanceof EngineError || error instanceof DiskFull)) throw error;
        yield* this.waitForEngine();
      }
    }
  }

  private *waitForEngine(): Work {
    this.troubles += 1;
    yield* wait(pause(Math.min(30_000, 2_000 * this.troubles)));
  }

  private *turn(): Work {
    this.isWoken = false;
    const { parts } = this.all;
    const { docker, process, cores } = parts;
    const container = yield* wait(docker.find(containerName(this.id)));
    if (this.isWoken) return;
    const { placement, status, memory } = this.record;
    const { spec } = placement;
    const healthTimeoutMs = spec.case === "serve" ? (spec.value.health?.timeoutSeconds ?? 60) * 1_000 : 0;
    const view: View = {
      kind: spec.case ?? "unknown",
      desired: placement.desired,
      observed: status.observed,
      memory,
      memoryMb: 0,
      healthTimeoutMs,
      drainMs: placement.drainSeconds * 1000,
      container: container === null ? null : { ...container },
      limitsDue: false,
      // Nothing that waits to be named after a reboot is in this world.
      isGranted: true,
      imageReady: this.imageReady,
      nowMs: process.wallMs(),
    };
    const step = cores.nextStep(view);
    const isIdle = idle.has(step.do);
    const pauseMs = restlessPauseMs(this.moves.get(step.do) ?? 0);
    if (pauseMs > 0 && !this.hasCalmedDown) {
      yield* wait(this.sleep(pauseMs, ["desired"]));
      this.hasCalmedDown = true;
      return;
    }
    this.hasCalmedDown = false;
    try {
      yield* this.perform(step, container);
      if (step.do === this.failed) this.attempts = 0;
      this.troubles = 0;
      if (isIdle) this.moves.clear();
      else this.moves.set(step.do, (this.moves.get(step.do) ?? 0) + 1);
    } catch (error) {
      if (isEngineTrouble(error)) return yield* this.waitForEngine();
      yield* this.handle(error, step);
    }
  }

  private *handle(error: unknown, step: Step): Work {
    if (!(error instanceof EngineError || error instanceof DiskFull || error instanceof TaskFailure)) throw error;
    this.attempts += 1;
    this.failed = step.do;
    const isTransient = error instanceof TaskFailure ? error.isTransient : true;
    const isWorthTrying = isTransient && (this.record.memory.wasHealthy || this.attempts < attemptsMax);
    if (isWorthTrying || step.do === "stop" || step.do === "remove") {
      const retrySinceMs = this.all.parts.process.wallMs();
      this.update({ memory: { retrySinceMs, retryAtMs: retrySinceMs + retryDelayMs(this.attempts) } });
      if (step.do === "stop" || step.do === "remove") yield* wait(pause(retryDelayMs(this.attempts)));
      return;
    }
    this.update({ observed: Observed.FAILED, upstream: "" });
  }

  private *perform(step: Step, container: Container | null): Work {
    const { parts } = this.all;
    const { docker, process } = parts;
    const name = containerName(this.id);
    const { placement, memory, status } = this.record;
    switch (step.do) {
      case "rest":
        yield* wait(this.sleep(Number.POSITIVE_INFINITY, ["desired", "engine"]));
        return;
      case "wait":
        yield* wait(this.sleep(Math.max(0, step.untilMs - process.wallMs()), ["desired", "engine"]));
        return;
      case "drain": {
        if (memory.drainUntilMs !== step.untilMs) this.update({ memory: { drainUntilMs: step.untilMs } });
        while (docker.isOpen(name) && process.wallMs() < step.untilMs) {
          const lookMs = Math.min(drainLookMs, step.untilMs - process.wallMs());
          if (yield* wait(this.sleep(lookMs, ["desired", "engine"]))) return;
        }
        this.update({ memory: { drainUntilMs: process.wallMs() } });
        return;
      }
      case "pull": {
        this.update({ observed: Observed.PULLING });
        const isEnded = yield* wait(this.sleep(process.random.between(50, 2_500), ["desired"]));
        if (!isEnded) this.imageReady = true;
        return;
      }
      case "create": {
        const port = memory.hostPort !== 0 ? memory.hostPort : this.all.takePort();
        this.update({ memory: { hostPort: port } });
        yield* wait(
          docker.create({
            name,
            kind: "serve",
            id: this.id,
            projectId: placement.projectId,
            epoch: placement.epoch,
            specHash: placement.specHash,
            port,
            takesMs: process.random.between(100, 3_000),
          }),
        );
        this.update({
          observed: Observed.CREATED,
          upstream: "",
          ...(memory.wasHealthy && { restarted: true, health: HealthState.STARTING }),
        });
        return;
      }
      case "start":
        yield* wait(docker.start(name));
        this.update({
          observed: Observed.STARTING,
          health: HealthState.STARTING,
          ...(memory.wasHealthy && container?.state === "exited" && { restarted: true }),
          memory: { portMisses: 0 },
        });
        return;
      case "prove":
        for (;;) {
          if (docker.isAnswering(name)) {
            return this.update({
              observed: Observed.RUNNING,
              health: HealthState.HEALTHY,
              upstream: this.upstreamOf(container),
              memory: { wasHealthy: true },
            });
          }
          if (process.wallMs() >= step.untilMs) {
            return this.update({ observed: Observed.FAILED, health: HealthState.UNHEALTHY, upstream: "" });
          }
          if (yield* wait(this.sleep(250, ["desired", "engine"]))) return;
        }
      case "watch": {
        let misses = 0;
        for (;;) {
          const isHealthy = docker.isAnswering(name);
          misses = isHealthy ? 0 : misses + 1;
          const upstream = this.upstreamOf(container);
          const { status: seen } = this.record;
          const isKnown = seen.health === HealthState.HEALTHY;
          if (isHealthy && !(isKnown && seen.upstream === upstream)) {
            this.update({ observed: Observed.RUNNING, health: HealthState.HEALTHY, upstream });
          }
          if (misses >= missesMax && isKnown) this.update({ health: HealthState.UNHEALTHY });
          if (yield* wait(this.sleep(!isHealthy && !isKnown ? 500 : watchEveryMs, ["desired", "engine"]))) return;
        }
      }
      case "count-crash":
        this.update({
          health: HealthState.BACKOFF,
          memory: {
            crashes: step.crash.crashes,
            countedExit: step.crash.countedExit,
            retrySinceMs: process.wallMs(),
            retryAtMs: process.wallMs() + step.crash.delayMs,
          },
        });
        return;
      case "discard":
        yield* wait(docker.remove(name));
        return;
      case "stop":
        yield* wait(docker.stop(name));
        return;
      case "remove":
        if (container?.state === "running") yield* wait(docker.stop(name));
        yield* wait(docker.remove(name));
        return;
      case "settle": {
        const port = heldPort(this.record);
        this.update({ observed: step.observed, health: HealthState.UNSPECIFIED, upstream: "" });
        if (step.observed === Observed.REMOVED && port !== 0) this.all.rest(port);
        return;
      }
      case "fail":
        this.update({ observed: Observed.FAILED, health: HealthState.UNSPECIFIED, upstream: "" });
        return;
      case "build":
      case "limit":
      case "explain-crash":
        throw new Error(`${status.placementId}: no ${step.do} here`);
    }
  }

  private upstreamOf(container: Container | null): string {
    return container === null ? "" : `${this.all.parts.address}:${container.port}`;
  }
}

export { isTerminal };
