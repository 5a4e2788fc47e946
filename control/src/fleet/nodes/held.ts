import type { Db } from "../../stores/db/pool.ts";
import type { DeploymentStatus, Task } from "../../stores/db/tables.ts";
import type { HeldPlacement, HeldRun } from "../cluster/facts.ts";
import { listWhose } from "../tasks/owners/index.ts";
import type { Whose } from "../tasks/owners/owner.ts";

/** A placement with the row that it came from. */
export interface HeldRow extends Whose {
  placement: HeldPlacement;
  task: Pick<Task, "owner_id" | "desired" | "epoch" | "replica" | "retiring_at" | "project_id" | "pr_number">;
  /** Null when its owner is something else. `isServed`: visitors of its channel are to be served by it. */
  deployment: { status: DeploymentStatus; since: Date; isServed: boolean } | null;
}

/** Whose these placements are. One whose task is gone is left out: the leader is about to forget it. */
export async function readHeld(db: Db, placements: readonly HeldPlacement[]): Promise<HeldRow[]> {
  if (placements.length === 0) return [];
  const rows = await db
    .selectFrom("task")
    .innerJoin("project", "project.id", "task.project_id")
    .leftJoin("deployment", "deployment.id", "task.owner_id")
    .leftJoin("channel_state", (join) =>
      join
        .onRef("channel_state.project_id", "=", "task.project_id")
        .onRef("channel_state.channel", "=", "task.channel")
        .onRef("channel_state.pr_number", "=", "task.pr_number"),
    )
    .select(["task.id", "task.owner_id", "task.desired", "task.epoch", "task.replica", "task.retiring_at"])
    .select(["task.project_id", "task.pr_number", "task.channel", "project.slug", "deployment.status"])
    .select(["deployment.phase_started_at", "deployment.created_at"])
    .select(["channel_state.deployment_id as served_id", "channel_state.stopped"])
    .where(
      "task.id",
      "in",
      placements.map(({ placementId }) => placementId),
    )
    .orderBy("project.slug")
    .orderBy("task.channel")
    .orderBy("task.replica")
    .orderBy("task.epoch")
    .execute();
  const byId = new Map(placements.map((placement) => [placement.placementId, placement]));
  return rows.flatMap((row) => {
    const placement = byId.get(row.id);
    if (placement === undefined) return [];
    return [
      {
        placement,
        task: row,
        ...{ project: row.slug, channel: row.channel, prNumber: row.pr_number === 0 ? null : row.pr_number },
        deployment: deploymentOf(row),
      },
    ];
  });
}

function deploymentOf(row: {
  status: DeploymentStatus | null;
  phase_started_at: Date | null;
  created_at: Date | null;
  owner_id: string;
  served_id: string | null;
  stopped: boolean | null;
}): HeldRow["deployment"] {
  const since = row.phase_started_at ?? row.created_at;
  if (row.status === null || since === null) return null;
  return { status: row.status, since, isServed: row.served_id === row.owner_id && row.stopped === false };
}

/** Whose these commands are; those of owners that are gone are left out. */
export async function readHeldRuns(db: Db, runs: readonly HeldRun[]): Promise<(Whose & { run: HeldRun })[]> {
  const owners = await listWhose(db, runs);
  return runs.flatMap((run) => {
    const whose = owners.get(run.ownerId);
    return whose === undefined ? [] : [{ run, ...whose }];
  });
}
