import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, DeploymentStatus, Project } from "../../stores/db/tables.ts";

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

export interface TimedDeployment extends DeploymentAndProject {
  /** By the database's clock. */
  now: Date;
  /** What its channel leads to, and since when; null: nothing ever had the channel. */
  channel: { deploymentId: string | null; changedAt: Date } | null;
}

/** Each of them, or it does not compile. */
const projectColumns = Object.keys({
  id: true,
  owner_id: true,
  name: true,
  slug: true,
  type: true,
  framework: true,
  repo_url: true,
  repo_id: true,
  production_branch: true,
  deploy_mode: true,
  suspended_at: true,
  suspend_reason: true,
  password_hash: true,
  deleting_at: true,
  created_at: true,
  updated_at: true,
  next_slug: true,
  next_slug_at: true,
  suspension_number: true,
  resuming_at: true,
  unrouted_at: true,
  quota_waived_until: true,
  db_engine: true,
} satisfies Record<keyof Project, true>) as (keyof Project)[];

/** The same with what its channel leads to, as it was at one moment, by one statement: for whoever looks often. */
export async function findTimedDeployment(db: Db, id: string): Promise<TimedDeployment | null> {
  const found = await db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .leftJoin("channel_state", (join) =>
      join
        .onRef("channel_state.project_id", "=", "deployment.project_id")
        .onRef("channel_state.channel", "=", "deployment.channel")
        .on("channel_state.pr_number", "=", sql<number>`coalesce(deployment.pr_number, 0)`),
    )
    .selectAll("deployment")
    .select(projectColumns.map((column) => `project.${column} as project.${column}` as const))
    .select(["channel_state.deployment_id as channel.to", "channel_state.changed_at as channel.since"])
    .select(sql<Date>`clock_timestamp()`.as("now"))
    .where("deployment.id", "=", id)
    .executeTakeFirst();
  if (found === undefined) return null;
  const { now, "channel.to": to, "channel.since": since, ...columns } = found;
  const rows = { deployment: {} as Record<string, unknown>, project: {} as Record<string, unknown> };
  for (const [name, value] of Object.entries(columns)) {
    if (name.startsWith("project.")) rows.project[name.slice("project.".length)] = value;
    else rows.deployment[name] = value;
  }
  return {
    deployment: rows.deployment as unknown as Deployment,
    project: rows.project as unknown as Project,
    now,
    channel: since === null ? null : { deploymentId: to, changedAt: since },
  };
}

/** Of the work that ends what a deployment left on nodes. */
export const retireKey = (deploymentId: string): string => `retire/${deploymentId}`;

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
