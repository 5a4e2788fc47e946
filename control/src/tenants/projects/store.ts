import type { DeploymentStatus } from "@svc/proto";
import { type Insertable, sql, type Updateable } from "kysely";
import type { CrashingValue } from "../../fleet/cluster/keys.ts";
import { isCiKey } from "../../http/access.ts";
import type { Caller } from "../../http/caller.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project, ProjectTable } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { worstCrashing } from "../crashes/store.ts";

/** Projects that `caller` may know of: their own, within the allowlist of the key, and not being deleted. */
const visible = (db: Db, caller: Pick<Caller, "userId" | "projectIds">) =>
  db
    .selectFrom("project")
    .where("project.owner_id", "=", caller.userId)
    .where("project.deleting_at", "is", null)
    .$if(caller.projectIds !== null, (query) => query.where("project.id", "in", atLeastOne(caller.projectIds ?? [])));

/** SQL has no empty list. */
const nobody = "00000000-0000-0000-0000-000000000000";
const atLeastOne = (ids: readonly string[]): string[] => (ids.length === 0 ? [nobody] : [...ids]);

/**
 * The caller's project. Throws NOT_FOUND for one that is missing, another's, or outside of the key's allowlist:
 * the answers are the same, so none tells which. `lock` keeps it as it is until the transaction ends.
 */
export async function getProject(
  db: Db,
  caller: Pick<Caller, "userId" | "projectIds">,
  id: string,
  { lock = false }: { lock?: boolean } = {},
): Promise<Project> {
  const project = await visible(db, caller)
    .selectAll("project")
    .where("project.id", "=", id)
    .$if(lock, (query) => query.forNoKeyUpdate())
    .executeTakeFirst();
  if (project === undefined) throw new Refused("NOT_FOUND");
  return project;
}

export interface ListedProject extends Project {
  /** Of the newest deployment of any channel; null when there never was one. */
  status: DeploymentStatus | null;
  /** How the container falls over that does so most often, production first; null when none does. */
  crashing: CrashingValue | null;
}

/** Newest first. */
export const listProjects = (db: Db, caller: Pick<Caller, "userId" | "projectIds">): Promise<ListedProject[]> =>
  visible(db, caller)
    .selectAll("project")
    .select((project) =>
      project
        .selectFrom("deployment")
        .select("deployment.status")
        .whereRef("deployment.project_id", "=", "project.id")
        .orderBy("deployment.number", "desc")
        .limit(1)
        .as("status"),
    )
    .select(worstCrashing(sql`task.project_id = project.id`).as("crashing"))
    .orderBy("project.created_at", "desc")
    .orderBy("project.id", "desc")
    .execute();

/** Projects that count against the plan; those being deleted do not. */
export async function countProjects(db: Db, ownerId: string): Promise<number> {
  const { count } = await db
    .selectFrom("project")
    .select((project) => project.fn.countAll<number>().as("count"))
    .where("owner_id", "=", ownerId)
    .where("deleting_at", "is", null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Adds a project together with its production host; null when the slug or the host is taken. */
export async function insertProject(db: Db, values: Insertable<ProjectTable>, host: string): Promise<Project | null> {
  const project = await db
    .insertInto("project")
    .values(values)
    .onConflict((conflict) => conflict.column("slug").doNothing())
    .returningAll()
    .executeTakeFirst();
  if (project === undefined) return null;
  const claimed = await db
    .insertInto("site_host")
    .values({ host, project_id: project.id, channel: "production" })
    .onConflict((conflict) => conflict.doNothing())
    .returning("host")
    .executeTakeFirst();
  if (claimed !== undefined) return project;
  await db.deleteFrom("project").where("id", "=", project.id).execute();
  return null;
}

export const updateProject = (db: Db, id: string, change: Updateable<ProjectTable>): Promise<Project> =>
  db.updateTable("project").set(change).where("id", "=", id).returningAll().executeTakeFirstOrThrow();

/** Which deployments `caller` may see: all of their projects', or what a CI key itself created. */
export const ownDeployments = (db: Db, caller: Caller) =>
  db
    .selectFrom("deployment")
    .innerJoin("project", "project.id", "deployment.project_id")
    .where("project.owner_id", "=", caller.userId)
    .where("project.deleting_at", "is", null)
    .$if(caller.projectIds !== null, (query) => query.where("project.id", "in", atLeastOne(caller.projectIds ?? [])))
    .$if(isCiKey(caller), (query) => query.where("deployment.created_by_token", "=", caller.tokenId ?? nobody));
