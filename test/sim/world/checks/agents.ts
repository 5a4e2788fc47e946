import type { Chain, PlacementRecord, RunState } from "@svc/agent/journal/records";
import { kindOf } from "@svc/agent/placements/kinds/index";
import { startWithinMs } from "@svc/control/fleet/agents/node-session";
import { RouteTable_Kind } from "@svc/proto/edge";
import {
  type Assign,
  Assign_Kind,
  Desired,
  Observed,
  type PlacementStatus,
  RunPhase,
  type RunStatus,
} from "@svc/proto/node";
import type { AgentMachine } from "../../machines/agent.ts";
import type { CallWitness } from "../../machines/call.ts";
import type { Container, ContainerWitness } from "../../machines/docker.ts";
import type { DatabaseChecks } from "./databases.ts";
import { Check } from "./seen.ts";

/** What may be said of an attempt whose journal says so. */
const phaseOf: Readonly<Partial<Record<RunState, RunPhase>>> = {
  "start-sent": RunPhase.STARTED,
  exit: RunPhase.EXITED,
  tombstone: RunPhase.NOT_STARTED,
  indeterminate: RunPhase.INDETERMINATE,
};

/** What agents accept, say, and have their engines do. */
export class AgentChecks extends Check implements ContainerWitness {
  private readonly startsOfDeployment = new Map<string, number>();
  private readonly acceptedAtMs = new Map<string, number>();
  private readonly startedOn = new Map<string, string>();
  private readonly clockSetAtMs = new Map<string, number>();
  readonly resyncs = new Map<string, number>();
  assignsSent = 0;

  get databases(): DatabaseChecks {
    return this.world.checks.databases;
  }

  /** Watches one stream: what is asked for from the beginning is told from there, next. */
  watchCall(daemonId: string): CallWitness {
    let asksForAll = false;
    return {
      heard: ({ case: kind, value }) => {
        if (kind === "applied" && (value as { resync: boolean }).resync) asksForAll = true;
      },
      sent: ({ case: kind, value }) => {
        if (kind === "assign") this.assignsSent += 1;
        if (kind !== "assign" && kind !== "table") return;
        const isAll = (value as { kind: number }).kind === (kind === "assign" ? Assign_Kind : RouteTable_Kind).COMPLETE;
        if (asksForAll && !isAll) this.fail(61, `${daemonId} asked to begin again, and is told changes`);
        asksForAll = false;
      },
    };
  }

  /** Called when an agent is about to journal an assignment that it has accepted. */
  onAssign(nodeId: string, chain: Chain, placements: ReadonlyMap<string, PlacementRecord>, assign: Assign): void {
    this.world.checks.databases.onNamed(nodeId, assign);
    if (assign.clusterEpoch === chain.clusterEpoch) {
      const isBack = chain.resultsIn !== "" && BigInt(assign.resultsIn) < BigInt(chain.resultsIn);
      if (isBack) this.fail(8, `${nodeId} goes back from revision ${chain.resultsIn} to ${assign.resultsIn}`);
      if (assign.leaderEpoch < chain.leaderEpoch) this.fail(8, `${nodeId} takes orders of an older leader`);
    } else if (assign.clusterEpoch < chain.clusterEpoch) this.fail(8, `${nodeId} goes back to an older cluster epoch`);
    // What makes a backup or a build is no outage, and counts for nothing.
    const running = [...placements].filter(
      ([, { status, placement }]) =>
        kindOf(placement)?.isVisited === true &&
        status.observed === Observed.RUNNING &&
        placement.desired < Desired.STOPPED,
    );
    const stopped = new Set([
      ...assign.upserts.filter(({ desired }) => desired >= Desired.STOPPED).map(({ placementId }) => placementId),
      ...assign.removes.map(({ placementId }) => placementId),
    ]);
    const stops = running.filter(([id]) => stopped.has(id)).length;
    if (stops > Math.max(3, running.length * 0.3) && assign.bulkToken === "")
      this.fail(13, `${nodeId} stops ${stops} of ${running.length} without a token`);
  }

  onResync(nodeId: string, why: string): void {
    this.resyncs.set(nodeId, (this.resyncs.get(nodeId) ?? 0) + 1);
    this.world.kernel.note(() => `${nodeId} asks to begin again: ${why}`);
  }

  onRunAccept(machineId: string, attemptId: string): void {
    this.acceptedAtMs.set(`${machineId} ${attemptId}`, this.nowMs);
  }

  onTold({ machineId, disk }: AgentMachine, { placementId, statusSeq }: PlacementStatus): void {
    const known = disk.durable.placements.get(placementId)?.status.statusSeq ?? statusSeq;
    if (known < statusSeq) this.fail(21, `${machineId} tells of ${placementId} what its journal does not know yet`);
  }

  onRunTold({ machineId, disk }: AgentMachine, status: RunStatus): void {
    const { attemptId, phase } = status;
    const record = disk.durable.runs.get(attemptId);
    if (record === undefined || phaseOf[record.state] !== phase)
      this.fail(
        21,
        `${machineId} says that ${attemptId} is in phase ${phase}, and its journal that it is ${record?.state}`,
      );
  }

  onOrder(kind: "create" | "start" | "stop" | "remove" | "kill", name: string, machineId: string): void {
    const machine = this.world.machineOf(machineId);
    if (machine === undefined) return;
    this.world.kernel.note(() => `${machineId}: docker ${kind} ${name}`);
    const isRun = name.startsWith("svc-r-");
    const id = name.slice("svc-p-".length);
    const { durable } = machine.disk;
    if (kind === "create" || kind === "start") {
      if (isRun) {
        const state = durable.runs.get(id)?.state;
        const isKnown = kind === "create" ? state === "intent" : state === "start-sent";
        if (!isKnown) this.fail(21, `${machineId}: ${kind} of ${id}, and its journal says ${state ?? "nothing"}`);
        const acceptedMs = this.acceptedAtMs.get(`${machineId} ${id}`) ?? 0;
        const lateMs = this.nowMs - acceptedMs - startWithinMs * 1.02;
        if (kind === "start" && lateMs > 50)
          this.fail(2, `${machineId}: start of ${id} is ${Math.round(lateMs)} ms late`);
      } else if (!durable.placements.has(id)) {
        this.fail(21, `${machineId}: ${kind} of ${id}, which its journal does not know`);
      } else if (kind === "start" && this.seen.endedPlacements.has(id) && !this.mayBeTwice(id, machineId)) {
        // An order of before that a slow engine carries out late is taken back, and nobody can do more.
        this.fail(10, `placement ${id} is started again after its end`);
      }
      return;
    }
    // What reads a database out goes with whoever asked for it.
    if (isRun || name.startsWith("svc-b-")) return;
    this.seen.stopOrderedAtMs.set(`${machineId} ${id}`, this.nowMs);
    const container = machine.docker.containers.get(name);
    if (container?.state !== "running") return;
    const task = this.world.postgres.tables.tasks.get(id);
    const node = this.world.postgres.tables.nodes.get(machine.nodeId);
    const isFenced = node?.lifecycle !== "active" || (node?.incarnation ?? 0) > machine.incarnation;
    const observed = machine.disk.state.placements.get(id)?.status.observed ?? Observed.UNSPECIFIED;
    const isOver = observed >= Observed.COMPLETED;
    const isElsewhere = this.seen.lostPlacements.has(id) && task?.nodeId !== machine.nodeId;
    if (task?.desired === "running" && task.reapedAt === null && !isFenced && !isOver && !isElsewhere) {
      this.fail(12, `${machineId}: ${kind} of ${id}, which is to run`);
    }
    // Of a node that there is twice, nobody knows which one an address belongs to, until it is quarantined.
    if (isFenced || isOver || this.world.isCloned(machineId)) return;
    if (task !== undefined && machine.docker.isOpen(name) && !isElsewhere) {
      const drainedMs = this.nowMs - (this.world.postgres.tables.removedAtMs.get(id) ?? this.nowMs);
      // A clock that was set forward ends it early, and nobody can tell.
      const isEarly = drainedMs < task.drainSeconds * 1_000 * 0.98 && !this.clockWasSet(machineId, id);
      if (isEarly)
        this.fail(
          29,
          `${machineId}: ${kind} of ${id} with open connections, ${Math.round(drainedMs)} ms after its removal was asked for, and it has ${task.drainSeconds} s`,
        );
    }
    const upstream = `${machine.address}:${container.port}`;
    const inRotation = this.world.postgres.tables.edgesInRotation();
    for (const edge of this.world.edges) {
      const host = inRotation.includes(edge.id) ? edge.caddy.hostOf(upstream) : null;
      if (host !== null) this.fail(14, `${machineId}: ${kind} of ${id}, to which ${edge.id} sends visitors of ${host}`);
    }
  }

  onClockSet(machineId: string): void {
    this.clockSetAtMs.set(machineId, this.nowMs);
  }

  private clockWasSet(machineId: string, taskId: string): boolean {
    const removedAtMs = this.world.postgres.tables.removedAtMs.get(taskId);
    return (this.clockSetAtMs.get(machineId) ?? Number.NEGATIVE_INFINITY) >= (removedAtMs ?? 0);
  }

  private mayBeTwice(placementId: string, machineId: string): boolean {
    return this.world.isCloned(machineId) || this.seen.lostPlacements.has(placementId);
  }

  onStart(container: Container, machineId: string): void {
    const { id, kind } = container;
    this.world.kernel.note(() => `${machineId}: ${kind} ${id} starts on port ${container.port}`);
    if (kind === "run") {
      const count = (this.seen.starts.get(id) ?? 0) + 1;
      this.seen.starts.set(id, count);
      if (this.world.checks.jobs.isOfJob(id)) this.world.checks.jobs.onStart(id);
      if (count > 1) this.fail(1, `attempt ${id} started ${count} times`);
      if (this.seen.neverStarted.has(id)) this.fail(3, `attempt ${id} starts after it was said that it never would`);
      const deploymentId = id.split(".")[0] ?? "";
      const total = (this.startsOfDeployment.get(deploymentId) ?? 0) + 1;
      this.startsOfDeployment.set(deploymentId, total);
      if (total > 1) this.fail(5, `the release command of ${deploymentId} started ${total} times`);
      return;
    }
    if (kind === "keeper") this.world.checks.copies.onKeeperStarts(container, machineId);
    const other = this.startedOn.get(id);
    if (other !== undefined && other !== machineId && !this.mayBeTwice(id, machineId))
      this.fail(10, `placement ${id} runs on ${other} and on ${machineId}`);
    this.startedOn.set(id, machineId);
  }

  onStop(container: Container, machineId: string, why: "ordered" | "exited" | "engine"): void {
    this.world.kernel.note(() => `${machineId}: ${container.id} stops: ${why}`);
    if (container.kind === "run" && why === "exited") this.seen.ranToEnd.add(container.id);
  }

  /** Called after an agent has journaled the end of a placement. */
  onEnded(placementId: string): void {
    this.seen.endedPlacements.add(placementId);
  }
}
