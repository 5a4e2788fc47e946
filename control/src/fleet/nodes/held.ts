import type { Db } from "../../stores/db/pool.ts";
import type { Channel, DeploymentStatus, Task } from "../../stores/db/tables.ts";
import type { HeldPlacement, HeldRun } from "../cluster/facts.ts";

/** Whose something on a node is, in words that show no address. */
export interface Whose {
  project: string;
  channel: Channel;
  prNumber: number | null;
}

/** A placement with the row that it came from. */
export interface HeldRow extends Whose {
  placement: HeldPlacement;
  task: Pick<Task, "owner_id" | "desired" | "epoch" | "replica" | "retiring_at" | "project_id" | "pr_number">;
  deployment: { status: DeploymentStatus; since: Date };
  /** Visitors of its channel are to be served by its deployment. */
  isServed: boolean;
}

/** Whose these placements are. One whose task is gone is left out: the leader is about to forget it. */
export async function readHeld(db: Db, placements: readonly HeldPlacement[]): Promise<HeldRow[]> {
  if (placements.length === 0) return [];
  const rows = await db
    .selectFrom("task")
    .innerJoin("project", "project.id", "task.project_id")
    .innerJoin("deployment", "deployment.id", "task.owner_id")
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
        deployment: { status: row.status, since: row.phase_started_at ?? row.created_at },
        isServed: row.served_id === row.owner_id && row.stopped === false,
      },
    ];
  });
}

/** Whose these commands are; those of deployments that are gone are left out. */
export async function readHeldRuns(db: Db, runs: readonly HeldRun[]): Promise<(Whose & { run: HeldRun })[]> {
  if (runs.length === 0) return [];
  const ids = runs.map(({ ownerId }) => ownerId);
  const rows = await db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .select(["deployment.id", "deployment.channel", "deployment.pr_number", "project.slug"])
    .where("deployment.id", "in", ids)
    .execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return runs.flatMap((run) => {
    const row = byId.get(run.ownerId);
    return row === undefined ? [] : [{ run, project: row.slug, channel: row.channel, prNumber: row.pr_number }];
  });
}
