import { type Guard, type Op, txnLimits } from "../../stores/etcd/index.ts";
import { keys, type PlacementValue } from "../cluster/keys.ts";
import type { Entry } from "./ledger.ts";
import type { DesiredTask, Placed, SchedulerStep } from "./steps.ts";

/** Steps that change what is placed; the others only tell Postgres something. */
export type Write = Exclude<SchedulerStep, { do: "refuse" | "keep" | "endDrain" }>;

export const isWrite = (step: SchedulerStep): step is Write =>
  step.do !== "refuse" && step.do !== "keep" && step.do !== "endDrain";

/** The task that a step is about. */
export function taskOf(step: Write): string {
  if (step.do === "place") return step.task.id;
  return step.do === "move" || step.do === "resize" ? step.placement.placementId : step.taskId;
}

/** What a step does in etcd. */
export interface Change {
  ops: Op[];
  guards: Guard[];
  entries: Entry[];
}

/**
 * A placement is created once, and what changes of it must still be what was decided on: a leader that reads an old
 * view must not write it a second time.
 */
export function changeOf(step: Write): Change {
  switch (step.do) {
    case "place": {
      const value = placementOf(step.task);
      const guard = { key: keys.placement(step.nodeId, step.task.id), compare: "absent" } as const;
      return write({ ...value, nodeId: step.nodeId, modRevision: 0n }, guard);
    }
    case "move":
      return write(
        { ...step.placement, desired: step.desired, drainSeconds: step.drainSeconds },
        unchanged(step.placement),
      );
    case "resize": {
      const limits = { ...step.limits, limitsGeneration: step.generation };
      return write({ ...step.placement, ...limits }, unchanged(step.placement));
    }
    case "reap": {
      const { nodeId, taskId } = step;
      if (nodeId === null) return { ops: [], guards: [], entries: [] };
      const ops = [keys.placement(nodeId, taskId), keys.observation(nodeId, taskId)].map((key) => ({
        delete: { key },
      }));
      return { ops, guards: [], entries: [{ deleted: taskId }] };
    }
    case "mirror":
      return { ops: [], guards: [], entries: [] };
  }
}

const placementOf = (task: DesiredTask): PlacementValue => ({
  placementId: task.id,
  epoch: task.epoch,
  desired: task.desired,
  kind: task.kind,
  specHash: task.specHash,
  projectId: task.projectId,
  ownerKind: task.ownerKind,
  ownerId: task.ownerId,
  channel: task.channel,
  memoryMb: task.memoryMb,
  cpuMillicores: task.cpuMillicores,
  pidsLimit: task.pidsLimit,
  storageMb: task.storageMb,
  reservedMemoryMb: task.reservedMemoryMb,
  reservedCpuMillicores: task.reservedCpuMillicores,
  limitsGeneration: 0,
  drainSeconds: task.drainSeconds,
});

const unchanged = ({ nodeId, placementId, modRevision }: Placed): Guard => ({
  key: keys.placement(nodeId, placementId),
  compare: "modRevision",
  value: modRevision,
});

function write(placed: Placed, guard: Guard): Change {
  const { nodeId, modRevision: _, ...value } = placed;
  const key = keys.placement(nodeId, value.placementId);
  return { ops: [{ put: { key, value: JSON.stringify(value) } }], guards: [guard], entries: [{ put: placed }] };
}

/** Steps that go into one transaction with what each does. */
export interface Batch {
  steps: Write[];
  change: Change;
}

/** The leader's own guard and the turn's, and the turn's operation, come with each. */
const opsMax = txnLimits.ops - 1;
const guardsMax = txnLimits.guards - 2;
/** Steps that change nothing in etcd take no room there. */
const stepsMax = 120;

/** In the order given, in as few batches as the limits of a transaction allow. */
export function batchesOf(steps: readonly Write[]): Batch[] {
  const batches: Batch[] = [];
  for (const step of steps) {
    const change = changeOf(step);
    const last = batches.at(-1);
    const fits =
      last !== undefined &&
      last.steps.length < stepsMax &&
      last.change.ops.length + change.ops.length <= opsMax &&
      last.change.guards.length + change.guards.length <= guardsMax;
    if (!fits) {
      batches.push({ steps: [step], change });
      continue;
    }
    last.steps.push(step);
    last.change.ops.push(...change.ops);
    last.change.guards.push(...change.guards);
    last.change.entries.push(...change.entries);
  }
  return batches;
}
