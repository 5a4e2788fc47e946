// @pure
import type { RunKind } from "@svc/proto/kinds";
import { isRunOver, keys, type PlacementValue, type RunValue } from "../cluster/keys.ts";
import type { OpenAttempt } from "../tasks/owners/owner.ts";
import { kindOfRun } from "../tasks/run-kinds/index.ts";

/** A row of `task`. */
export interface KnownTask extends Omit<PlacementValue, "placementId" | "limitsGeneration"> {
  id: string;
  /** Null: it was never placed, as far as Postgres knows. */
  nodeId: string | null;
  /** Its container is certainly gone. */
  reaped: boolean;
}

/** What etcd has after a restore. */
export interface Restored {
  placements: readonly { nodeId: string; placement: PlacementValue }[];
  runs: readonly { nodeId: string; run: RunValue }[];
  /** Every key of the route table, of what edges say to have applied, and of what nodes say of containers. */
  outdated: readonly string[];
}

/** What is to be written, and how much of what kind that is. */
export interface Recovery {
  puts: { key: string; value: PlacementValue | RunValue }[];
  deletes: string[];
  /** Placements that etcd did not have. */
  replaced: number;
  /** Placements that were to run further than Postgres says. */
  advanced: number;
  /** Placements whose container is gone. */
  forgotten: number;
  /** Runs of which nobody can say any more whether they ran, by kind. */
  unsettled: ReadonlyMap<RunKind, number>;
  /** Placements of which Postgres knows nothing: they run on, and are a person's to judge. */
  unknown: { nodeId: string; placementId: string }[];
}

const order = { running: 0, stopped: 1, removed: 2 } as const;

/**
 * What makes a restored etcd (an older one, or an empty one) say again what Postgres knows:
 * - Placements are what the tasks say, where they were: nothing that runs is stopped, and nothing runs twice.
 * - A run that may have been started since the backup is never offered again: its outcome is not known.
 * - The route table goes, and what edges have of it. Edges serve what they have until the first new one.
 * - What nodes said of containers goes: an address may be another container's by now. They say everything again.
 */
export function recoverySteps(
  tasks: ReadonlyMap<string, KnownTask>,
  attempts: readonly OpenAttempt[],
  restored: Restored,
  now: Date,
): Recovery {
  const recovery: Recovery = {
    puts: [],
    deletes: [...restored.outdated],
    ...{ replaced: 0, advanced: 0, forgotten: 0, unsettled: new Map(), unknown: [] },
  };
  const placed = new Set<string>();
  for (const { nodeId, placement } of restored.placements) {
    const { placementId } = placement;
    const task = tasks.get(placementId);
    placed.add(placementId);
    if (task === undefined) recovery.unknown.push({ nodeId, placementId });
    else if (task.reaped) {
      recovery.deletes.push(keys.placement(nodeId, placementId));
      recovery.forgotten += 1;
    } else if (order[task.desired] > order[placement.desired]) {
      const value = { ...placement, desired: task.desired, drainSeconds: task.drainSeconds };
      recovery.puts.push({ key: keys.placement(nodeId, placementId), value });
      recovery.advanced += 1;
    }
  }
  for (const { id, nodeId, reaped, ...task } of tasks.values()) {
    if (reaped || nodeId === null || placed.has(id)) continue;
    const value = { ...task, placementId: id, limitsGeneration: 0 };
    recovery.puts.push({ key: keys.placement(nodeId, id), value });
    recovery.replaced += 1;
  }
  const runs = lostRuns(attempts, restored.runs, now);
  recovery.puts.push(...runs);
  const kindsOfRuns = Map.groupBy(runs, ({ value }) => value.kind);
  recovery.unsettled = new Map([...kindsOfRuns].map(([kind, each]) => [kind, each.length]));
  return recovery;
}

function lostRuns(
  attempts: readonly OpenAttempt[],
  runs: Restored["runs"],
  now: Date,
): { key: string; value: RunValue }[] {
  const changedAt = now.toISOString();
  const ending = (kind: RunKind) => {
    const message = `etcd was restored from a backup while the ${kindOfRun(kind).called.one} was under way.`;
    return { state: "indeterminate", message, changedAt } as const;
  };
  const known = new Set(runs.map(({ run }) => run.attemptId));
  const stale = runs
    .filter(({ run }) => !isRunOver(run.state))
    .map(({ nodeId, run }) => ({ key: keys.run(nodeId, run.attemptId), value: { ...run, ...ending(run.kind) } }));
  const missing = attempts.flatMap(({ nodeId, ...attempt }) => {
    const { attemptId } = attempt;
    if (known.has(attemptId)) return [];
    const value: RunValue = {
      ...attempt,
      ...{ cancel: false, acceptedBy: null, token: null },
      ...{ exitCode: null, timedOut: false, startedAt: null, finishedAt: null },
      ...ending(attempt.kind),
    };
    return [{ key: keys.run(nodeId, attemptId), value }];
  });
  return [...stale, ...missing];
}
