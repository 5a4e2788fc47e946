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

/** The same with the database's time at which it was so, in one round trip: for whoever looks often. */
export async function findTimedDeployment(db: Db, id: string): Promise<(DeploymentAndProject & { now: Date }) | null> {
  const [found, project] = await Promise.all([
    db
      .selectFrom("deployment")
      .selectAll()
      .select(sql<Date>`clock_timestamp()`.as("now"))
      .where("id", "=", id)
      .executeTakeFirst(),
    db
      .selectFrom("project")
      .selectAll()
      .where("id", "=", (of) => of.selectFrom("deployment").select("project_id").where("deployment.id", "=", id))
      .executeTakeFirst(),
  ]);
  if (found === undefined || project === undefined) return null;
  const { now, ...deployment } = found;
  return { deployment, project, now };
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
