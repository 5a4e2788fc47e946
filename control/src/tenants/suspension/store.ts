import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";

/** Any project that is not being deleted, held until the transaction ends; null when there is none. */
export async function lockProject(tx: Db, id: string): Promise<Project | null> {
  const project = await tx
    .selectFrom("project")
    .selectAll()
    .where("id", "=", id)
    .where("deleting_at", "is", null)
    .forNoKeyUpdate()
    .executeTakeFirst();
  return project ?? null;
}

/** All projects of a user that are not being deleted, held until the transaction ends. */
export const lockProjects = (tx: Db, ownerId: string): Promise<Project[]> =>
  tx
    .selectFrom("project")
    .selectAll()
    .where("owner_id", "=", ownerId)
    .where("deleting_at", "is", null)
    .orderBy("id")
    .forNoKeyUpdate()
    .execute();

/** What the channels of a project serve, suspended or not: not what its owner has stopped. */
export const listServed = (db: Db, projectId: string): Promise<Deployment[]> =>
  db
    .selectFrom("channel_state")
    .innerJoin("deployment", "deployment.id", "channel_state.deployment_id")
    .selectAll("deployment")
    .where("channel_state.project_id", "=", projectId)
    .where("channel_state.stopped", "=", false)
    .where("deployment.status", "=", "running")
    .orderBy("deployment.number")
    .execute();

/** A deployment of the project that is on its way, and whether it is in the queue or somebody works on it. */
export interface OpenDeployment {
  id: string;
  status: "queued" | "building" | "deploying";
  hasWork: boolean;
}

export async function listOpen(db: Db, projectId: string): Promise<OpenDeployment[]> {
  const { rows } = await sql<OpenDeployment>`
    select id, status, exists (
      select from work_item
      where kind = 'deploy' and key = ${projectId} and state in ('queued', 'running')
        and payload ->> 'deploymentId' = deployment.id::text) as "hasWork"
    from deployment where project_id = ${projectId} and status in ('queued', 'building', 'deploying')
    order by number`.execute(db);
  return rows;
}
