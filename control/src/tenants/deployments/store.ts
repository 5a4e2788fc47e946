import { sql } from "kysely";
import { insertEvent } from "../../fleet/tasks/deployment.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, DeploymentStatus } from "../../stores/db/tables.ts";

/** What a deployment's readers are warned of: lines of its timeline with this phase. */
export const warningPhase = "warning";

/** What the readers of a deployment of the project are warned of, in the order in which it was said. */
export async function listWarnings(
  db: Db,
  { projectId, deploymentId }: { projectId: string; deploymentId: string },
): Promise<string[]> {
  const rows = await db
    .selectFrom("deployment_event")
    .innerJoin("deployment", "deployment.id", "deployment_event.deployment_id")
    .select("deployment_event.detail")
    .where("deployment.id", "=", deploymentId)
    .where("deployment.project_id", "=", projectId)
    .where("deployment_event.phase", "=", warningPhase)
    .orderBy("deployment_event.id")
    .execute();
  return rows.flatMap(({ detail }) => detail ?? []);
}

/** Warns of each thing once, in the caller's transaction. */
export async function addWarnings(
  tx: Db,
  { projectId, deploymentId }: { projectId: string; deploymentId: string },
  warnings: readonly string[],
): Promise<void> {
  if (warnings.length === 0) return;
  const told = new Set(await listWarnings(tx, { projectId, deploymentId }));
  for (const detail of new Set(warnings))
    if (!told.has(detail)) await insertEvent(tx, { deploymentId, phase: warningPhase, detail });
}

/**
 * Moves a deployment from one status to another together with `change` and its timeline line, by one statement.
 * False when it is not in `from` any more: somebody else moved it, and nothing was written.
 */
export async function moveDeployment(
  db: Db,
  id: string,
  move: { from: DeploymentStatus; to: DeploymentStatus; phase: string; detail?: string | null },
  change: Partial<Pick<Deployment, "error" | "error_code" | "started_at" | "finished_at" | "release_status">> = {},
): Promise<boolean> {
  const { from, to, phase, detail = null } = move;
  const moved = await db
    .with("moved", (tx) =>
      tx
        .updateTable("deployment")
        .set({ ...change, status: to, phase_started_at: sql<Date>`now()` })
        .where("id", "=", id)
        .where("status", "=", from)
        .returning("id"),
    )
    .insertInto("deployment_event")
    .columns(["deployment_id", "phase", "from_status", "to_status", "detail"])
    .expression((line) =>
      line
        .selectFrom("moved")
        .select([
          "moved.id",
          sql<string>`${phase}::text`.as("phase"),
          sql<DeploymentStatus>`${from}::text`.as("from_status"),
          sql<DeploymentStatus>`${to}::text`.as("to_status"),
          sql<string | null>`${detail}::text`.as("detail"),
        ]),
    )
    .executeTakeFirst();
  return (moved.numInsertedOrUpdatedRows ?? 0n) === 1n;
}

/** What a canceled deployment says of itself; `detail` is as in its timeline. */
export const canceledError = (detail: string): string => `Canceled: ${detail}.`;

/** Whether a deployment that is on its way is to end: canceled, or its project deleted or suspended. */
export async function isEndAskedFor(db: Db, id: string): Promise<boolean> {
  const row = await db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .select(["cancel_requested_at", "deleting_at", "suspended_at"])
    .where("deployment.id", "=", id)
    .executeTakeFirst();
  return row === undefined || Object.values(row).some((at) => at !== null);
}

/** A newer deployment of the same channel that is not over. */
export async function isOvertaken(db: Db, deployment: Deployment): Promise<boolean> {
  const newer = await db
    .selectFrom("deployment")
    .select("id")
    .where("project_id", "=", deployment.project_id)
    .where("channel", "=", deployment.channel)
    .where("pr_number", "is not distinct from", deployment.pr_number)
    .where("number", ">", deployment.number)
    .where("status", "in", ["queued", "building", "deploying"])
    .limit(1)
    .executeTakeFirst();
  return newer !== undefined;
}

/** Deployments that serve, or would after a start, in the channel of `deployment`, besides itself; newest first. */
export const listServing = (db: Db, deployment: Deployment): Promise<Deployment[]> =>
  servingBeside(db, deployment).execute();

const servingBeside = (db: Db, deployment: Deployment) =>
  db
    .selectFrom("deployment")
    .selectAll()
    .where("project_id", "=", deployment.project_id)
    .where("channel", "=", deployment.channel)
    .where("pr_number", "is not distinct from", deployment.pr_number)
    .where("status", "in", ["running", "stopped"])
    .where("id", "!=", deployment.id)
    .orderBy("number", "desc");

/** The same, held until the transaction ends, as they are then: what is being removed is not among them. */
export const lockServing = (tx: Db, deployment: Deployment): Promise<Deployment[]> =>
  servingBeside(tx, deployment).forUpdate().execute();
