import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import type { Deployment, DeploymentStatus, Project, Task } from "../db/tables.ts";

/** Channel on which changes of `task` rows are announced to the leader. */
export const taskChannel = "svc_tasks";
/** Channel on which changes of what hosts serve are announced to the leader. */
export const routeChannel = "svc_routes";

export async function notify(db: Db, channel: string): Promise<void> {
  await sql`select pg_notify(${channel}, '')`.execute(db);
}

export interface DeploymentAndProject {
  deployment: Deployment;
  project: Project;
}

export async function findDeployment(db: Db, id: string): Promise<DeploymentAndProject | null> {
  const deployment = await db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirst();
  if (deployment === undefined) return null;
  const project = await db
    .selectFrom("project")
    .selectAll()
    .where("id", "=", deployment.project_id)
    .executeTakeFirstOrThrow();
  return { deployment, project };
}

/** One line of the deployment's timeline. */
export async function insertEvent(
  db: Db,
  event: {
    deploymentId: string;
    phase: string;
    from?: DeploymentStatus;
    to?: DeploymentStatus;
    detail?: string | null;
  },
): Promise<void> {
  await db
    .insertInto("deployment_event")
    .values({
      deployment_id: event.deploymentId,
      phase: event.phase,
      from_status: event.from ?? null,
      to_status: event.to ?? null,
      detail: event.detail ?? null,
    })
    .execute();
}

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
 * Moves a deployment from one status to another together with `change` and its timeline line.
 * False when it is not in `from` any more: somebody else moved it, and nothing was written.
 */
export function moveDeployment(
  db: Db,
  id: string,
  move: { from: DeploymentStatus; to: DeploymentStatus; phase: string; detail?: string | null },
  change: Partial<Pick<Deployment, "error" | "error_code" | "started_at" | "finished_at" | "release_status">> = {},
): Promise<boolean> {
  return inTransaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable("deployment")
      .set({ ...change, status: move.to, phase_started_at: sql<Date>`now()` })
      .where("id", "=", id)
      .where("status", "=", move.from)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    await insertEvent(tx, {
      deploymentId: id,
      phase: move.phase,
      from: move.from,
      to: move.to,
      detail: move.detail ?? null,
    });
    return true;
  });
}

/** What a canceled deployment says of itself; `detail` is as in its timeline. */
export const canceledError = (detail: string): string => `Canceled: ${detail}.`;

/** Runs in the caller's transaction when there is one. */
export function inTransaction<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  return db.isTransaction ? work(db) : db.transaction().execute(work);
}

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

/**
 * Holds the deployment's row for the rest of the transaction. False when it is not in `status` any more: whoever
 * decided on old facts (a worker that lost its lease) must then write nothing.
 */
export async function lockDeployment(tx: Db, id: string, status: DeploymentStatus): Promise<boolean> {
  const row = await tx
    .selectFrom("deployment")
    .select("id")
    .where("id", "=", id)
    .where("status", "=", status)
    .forUpdate()
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Keeps the deployment from going until the transaction ends; false when it is gone. For a transaction that adds to its
 * timeline and changes its tasks, before those: a line refers to it, and who has it locked may want the tasks next.
 */
export async function holdDeployment(tx: Db, id: string): Promise<boolean> {
  const row = await tx.selectFrom("deployment").select("id").where("id", "=", id).forKeyShare().executeTakeFirst();
  return row !== undefined;
}

/** Tasks of a kind that are to run. */
export const listWantedTasks = (db: Db, deploymentId: string, kind: Task["kind"]): Promise<Task[]> =>
  db
    .selectFrom("task")
    .selectAll()
    .where("deployment_id", "=", deploymentId)
    .where("kind", "=", kind)
    .where("desired", "=", "running")
    .execute();

export const listTasks = (db: Db, deploymentId: string): Promise<Task[]> =>
  db.selectFrom("task").selectAll().where("deployment_id", "=", deploymentId).orderBy("epoch", "asc").execute();

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

export async function findChannelState(
  db: Db,
  deployment: Pick<Deployment, "project_id" | "channel" | "pr_number">,
  { lock = false } = {},
) {
  const row = await db
    .selectFrom("channel_state")
    .selectAll()
    .$if(lock, (query) => query.forUpdate())
    .where("project_id", "=", deployment.project_id)
    .where("channel", "=", deployment.channel)
    .where("pr_number", "=", deployment.pr_number ?? 0)
    .executeTakeFirst();
  return row ?? null;
}

/** Points the channel at a deployment (null: at nothing) and tells the leader. */
export async function setChannelState(
  db: Db,
  deployment: Pick<Deployment, "project_id" | "channel" | "pr_number">,
  state: { deploymentId: string | null; stopped: boolean },
): Promise<void> {
  const values = { deployment_id: state.deploymentId, stopped: state.stopped, changed_at: sql<Date>`now()` };
  await db
    .insertInto("channel_state")
    .values({
      project_id: deployment.project_id,
      channel: deployment.channel,
      pr_number: deployment.pr_number ?? 0,
      ...values,
    })
    .onConflict((conflict) => conflict.columns(["project_id", "channel", "pr_number"]).doUpdateSet(values))
    .execute();
  await notify(db, routeChannel);
}

/** Hosts that serve the channel; those that only redirect to one of them are not among these. */
export const listHosts = (db: Db, deployment: Pick<Deployment, "project_id" | "channel" | "pr_number">) =>
  db
    .selectFrom("site_host")
    .select("host")
    .where("project_id", "=", deployment.project_id)
    .where("channel", "=", deployment.channel)
    .where("pr_number", "is not distinct from", deployment.pr_number)
    .where("redirect_to", "is", null)
    .execute();

/**
 * Holds tasks until the transaction ends. Whoever changes several in one transaction takes them by this first: in one
 * order, so that nobody waits for somebody who waits for them. After their deployments, if those are needed, too.
 */
export async function lockTasks(tx: Db, taskIds: readonly string[]): Promise<void> {
  if (taskIds.length === 0) return;
  await tx
    .selectFrom("task")
    .select("id")
    .where("id", "=", sql<string>`any(${[...taskIds]}::uuid[])`)
    .orderBy("epoch")
    .forNoKeyUpdate()
    .execute();
}

/**
 * Asks for tasks to be ended and removed; the leader and the agent do it. Their containers may serve what is open for
 * `drainSeconds`, and for less if that was said before.
 */
export async function removeTasks(
  db: Db,
  taskIds: readonly string[],
  { drainSeconds = 0 }: { drainSeconds?: number } = {},
): Promise<void> {
  if (taskIds.length === 0) return;
  await inTransaction(db, async (tx) => {
    await lockTasks(tx, taskIds);
    await tx
      .updateTable("task")
      .set({ desired: "removed", drain_seconds: drainSeconds })
      .where("id", "in", [...taskIds])
      .where((where) => where.or([where("desired", "!=", "removed"), where("drain_seconds", ">", drainSeconds)]))
      .execute();
    await notify(tx, taskChannel);
  });
}

/** Containers of projects, or of one channel of theirs, that were replaced and serve what is open. */
export const listDraining = (
  db: Db,
  { projectIds, channel }: { projectIds: readonly string[]; channel?: Pick<Deployment, "channel" | "pr_number"> },
): Promise<{ id: string }[]> =>
  db
    .selectFrom("task")
    .select("id")
    .where("project_id", "in", projectIds)
    .$if(channel !== undefined, (query) =>
      query.where("channel", "=", channel?.channel ?? "production").where("pr_number", "=", channel?.pr_number ?? 0),
    )
    .where("desired", "=", "removed")
    .where("drain_seconds", ">", 0)
    .where("reaped_at", "is", null)
    .execute();

/** Has them asked to end now. */
export async function endDrains(db: Db, of: Parameters<typeof listDraining>[1]): Promise<void> {
  const draining = await listDraining(db, of);
  await removeTasks(
    db,
    draining.map(({ id }) => id),
  );
}

/** Ends tasks and keeps what they hold, their ports above all: a task never runs again. */
export async function stopTasks(db: Db, taskIds: readonly string[]): Promise<void> {
  if (taskIds.length === 0) return;
  await inTransaction(db, async (tx) => {
    await lockTasks(tx, taskIds);
    await tx
      .updateTable("task")
      .set({ desired: "stopped" })
      .where("id", "in", [...taskIds])
      .where("desired", "=", "running")
      .execute();
    await notify(tx, taskChannel);
  });
}
