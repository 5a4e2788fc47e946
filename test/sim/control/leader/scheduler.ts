import { keyParts, keys, type PlacementValue, prefix } from "@svc/control/fleet/cluster/keys";
import { isWrite } from "@svc/control/fleet/scheduler/commit";
import { createRecent } from "@svc/control/fleet/scheduler/recent";
import type { DesiredTask, Placed, SchedulerStep } from "@svc/control/fleet/scheduler/steps";
import type { Guard } from "@svc/control/stores/etcd/txn";
import type { Work } from "../../kernel/kernel.ts";
import type { Op, Values } from "../../stores/etcd.ts";
import type { Tables } from "../../stores/postgres.ts";
import { inFencedTransaction, type Leader } from "./fenced.ts";
import { readClusterState } from "./snapshot.ts";

/** How often a round decides anew what was refused, before it leaves the rest to the next one. */
const triesMax = 3;
const stepsPerBatch = 50;

/** Returns the round of one leadership: mirrors `control/src/fleet/scheduler/scheduler.ts`. */
export function createScheduler(leader: Leader): () => Work {
  const { replica } = leader;
  const { fleet, world } = replica;
  const ledger = createLedger(leader);
  const recent = createRecent();

  /** False when etcd has something else than was decided on, so that the rest has to be decided anew. */
  function* commit(steps: readonly SchedulerStep[]): Work<boolean> {
    for (let at = 0; at < steps.length; at += stepsPerBatch) {
      const batch = steps.slice(at, at + stepsPerBatch);
      if (!(yield* ledger.commit(batch.map((step) => changeOf(step, world.values))))) return false;
      yield* inFencedTransaction(leader, (tables) => {
        for (const step of batch) mirror(tables, step);
      });
    }
    return true;
  }

  return function* () {
    for (let tries = 1; tries <= triesMax; tries += 1) {
      const placed = yield* ledger.read();
      const state = yield* readClusterState(replica, placed);
      const hints = recent.note(placed, state.observed, fleet.now());
      const steps = world.cores.schedule({ ...state, hints });
      if (!(yield* commit(steps.filter(isWrite)))) continue;
      const refusals = steps.flatMap((step) => (step.do === "refuse" ? [step] : []));
      if (refusals.length > 0) {
        yield* replica.transact((tables) => {
          for (const { taskId, refused } of refusals) {
            const task = tables.open.get(taskId);
            if (task !== undefined) task.refused = refused;
          }
        });
      }
      const ended = steps.flatMap((step) => (step.do === "endDrain" ? [step.taskId] : []));
      if (ended.length > 0) yield* replica.transact((tables) => tables.removeTasks(ended, world.kernel.nowMs));
      return;
    }
  };
}

// -------------------------------------------------------------------- ledger

/** What a step does in etcd, and to the placements that are known. */
interface Change {
  ops: readonly Op[];
  guards: readonly Guard[];
  entry: { put: Placed } | { deleted: string } | null;
}

/** The placements as etcd has them, exactly: mirrors `control/src/fleet/scheduler/ledger.ts`. */
interface Ledger {
  read(): Work<ReadonlyMap<string, Placed>>;
  /** Writes in one transaction; false when a guard did not hold. */
  commit(changes: readonly Change[]): Work<boolean>;
}

function createLedger({ replica, leadership }: Leader): Ledger {
  const { client, world } = replica;
  let known: { placed: Map<string, Placed>; turn: bigint } | null = null;
  const endTurn = (): Op => ({
    put: { key: keys.schedulerTurn, value: world.values.textOf(String(leadership.epoch)) },
  });

  return {
    *read() {
      if (known !== null) return known.placed;
      // A write whose outcome is not known never arrives once its turn is over, so what is read now stays as it is.
      const { revision } = yield* leadership.txn([endTurn()]);
      const { entries } = yield* client.range(prefix.placements);
      const placed = new Map<string, Placed>();
      for (const { key, value, modRevision } of entries) {
        const placement = world.values.of<PlacementValue>(value);
        const nodeId = keyParts(key, prefix.placements)[0] ?? "";
        placed.set(placement.placementId, { ...placement, nodeId, modRevision });
      }
      known = { placed, turn: revision };
      return placed;
    },
    *commit(changes) {
      if (known === null) return false;
      const { placed, turn } = known;
      // Until its outcome is known nothing is.
      known = null;
      const { succeeded, revision } = yield* leadership.txn(
        [...changes.flatMap(({ ops }) => ops), endTurn()],
        [...changes.flatMap(({ guards }) => guards), { key: keys.schedulerTurn, compare: "modRevision", value: turn }],
      );
      if (!succeeded) return false;
      for (const { entry } of changes) {
        if (entry === null) continue;
        if ("put" in entry) placed.set(entry.put.placementId, { ...entry.put, modRevision: revision });
        else placed.delete(entry.deleted);
      }
      known = { placed, turn: revision };
      return true;
    },
  };
}

// -------------------------------------------------------------------- commit

/** Mirrors `control/src/fleet/scheduler/commit.ts`. */
function changeOf(step: SchedulerStep, values: Values): Change {
  const put = (placed: Placed, guard: Guard): Change => {
    const { nodeId, modRevision: _, ...value } = placed;
    const key = keys.placement(nodeId, value.placementId);
    return { ops: [{ put: { key, value: values.textOf(value) } }], guards: [guard], entry: { put: placed } };
  };
  if (step.do === "place") {
    const { task, nodeId } = step;
    const guard = { key: keys.placement(nodeId, task.id), compare: "absent" } as const;
    return put({ ...placementOf(task), nodeId, modRevision: 0n }, guard);
  }
  if (step.do === "move") {
    const { nodeId, placementId, modRevision } = step.placement;
    const unchanged = { key: keys.placement(nodeId, placementId), compare: "modRevision", value: modRevision } as const;
    return put({ ...step.placement, desired: step.desired, drainSeconds: step.drainSeconds }, unchanged);
  }
  if (step.do === "reap" && step.nodeId !== null) {
    const { nodeId, taskId } = step;
    const gone = [keys.placement(nodeId, taskId), keys.observation(nodeId, taskId)];
    return { ops: gone.map((key) => ({ delete: { key } })), guards: [], entry: { deleted: taskId } };
  }
  return { ops: [], guards: [], entry: null };
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

/** Tells Postgres what is in etcd now. */
export function mirror(tables: Tables, step: SchedulerStep): void {
  if (step.do === "place" || step.do === "mirror") {
    const task = tables.tasks.get(step.do === "place" ? step.task.id : step.taskId);
    if (task === undefined) return;
    task.nodeId = step.nodeId;
    task.refused = null;
  } else if (step.do === "reap") {
    const task = tables.tasks.get(step.taskId);
    if (task !== undefined) task.reaped = true;
    tables.open.delete(step.taskId);
  }
}
