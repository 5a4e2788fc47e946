import { storedManifestSchema } from "@svc/proto";
import { sql } from "kysely";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { haveEdgesLeft } from "../../fleet/routes/left.ts";
import { edgesInRotation } from "../../fleet/routes/progress.ts";
import { replicasOf } from "../../fleet/tasks/kinds/serve.ts";
import type { DatabaseClock } from "../../stores/db/clock.ts";
import { databaseClock } from "../../stores/db/clock.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { taskFacts } from "../deployments/facts.ts";
import { listSiteHosts } from "../hosts/hosts.ts";
import type { ContainerFacts, SuspensionFacts } from "./steps.ts";
import { listOpen, listServed } from "./store.ts";

export interface Waits {
  drainMs: number;
  edgesWaitMs: number;
}

/** What decides the next step, and of which suspension or resumption it is. */
export interface FoundSuspension {
  number: number;
  facts: SuspensionFacts;
}

export interface FactsDeps {
  db: Db;
  fleet: Fleet;
  etcd: Etcd;
  /** The database's unless given. */
  clock?: DatabaseClock;
}

/** Everything read afresh; null when the project is gone. */
export async function readSuspensionFacts(
  { db, fleet, etcd, clock = databaseClock }: FactsDeps,
  projectId: string,
  waits: Waits,
): Promise<FoundSuspension | null> {
  // Before what it is compared with: then nothing seems to last longer than it does.
  const now = await clock(db);
  const aheadMs = fleet.now().getTime() - now.getTime();
  const shared = (at: Date) => new Date(at.getTime() - aheadMs);
  const project = await db.selectFrom("project").selectAll().where("id", "=", projectId).executeTakeFirst();
  if (project === undefined) return null;
  const [open, served, containers, attempts] = await Promise.all([
    listOpen(db, projectId),
    listServed(db, projectId),
    listContainers({ db, fleet }, projectId, shared),
    countAttempts(db, projectId),
  ]);
  return {
    number: project.suspension_number,
    facts: {
      ...waits,
      now,
      lookingSince: shared(fleet.lookingSince),
      projectGone: project.deleting_at !== null,
      suspension:
        project.suspended_at === null
          ? null
          : { since: project.suspended_at, resumingSince: project.resuming_at, unroutedAt: project.unrouted_at },
      open,
      served: served
        .filter(({ artifact_kind }) => artifact_kind === "image")
        .map(({ id, manifest }) => {
          const parsed = storedManifestSchema.parse(manifest);
          const { timeoutSeconds: healthTimeoutSeconds } = parsed.health;
          return {
            deploymentId: id,
            replicas: replicasOf(parsed),
            attempts: attempts.get(id) ?? 0,
            healthTimeoutSeconds,
          };
        }),
      containers,
      unrouted: await isUnrouted({ db, fleet, etcd }, project, containers),
    },
  };
}

/** `shared` makes a time of the fleet's one of the database's. */
async function listContainers(
  { db, fleet }: { db: Db; fleet: Fleet },
  projectId: string,
  shared: (at: Date) => Date,
): Promise<ContainerFacts[]> {
  const tasks = await db
    .selectFrom("task")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("kind", "=", "serve")
    .where("desired", "!=", "removed")
    .orderBy("epoch")
    .execute();
  return tasks.map((task) => {
    const { nodeLostAt, ...facts } = taskFacts(task, fleet);
    return { ...facts, nodeLostAt: nodeLostAt && shared(nodeLostAt), deploymentId: task.owner_id };
  });
}

/** Containers made since the resumption was asked for, those that are gone again included, by deployment. */
async function countAttempts(db: Db, projectId: string): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom("task")
    .innerJoin("project", "project.id", "task.project_id")
    .select("task.owner_id as deploymentId")
    .select(sql<number>`count(*)`.as("count"))
    .where("task.project_id", "=", projectId)
    .where("task.kind", "=", "serve")
    .whereRef("task.created_at", ">=", "project.resuming_at")
    .groupBy("task.owner_id")
    .execute();
  return new Map(rows.map(({ deploymentId, count }) => [deploymentId, count]));
}

/**
 * Whether visitors reach no container any more: of a suspended project when all its hosts show the page, of any other
 * when no host leads to a container that is to be gone; and every edge in rotation serves that table.
 */
async function isUnrouted(
  deps: { db: Db; fleet: Fleet; etcd: Etcd },
  project: Project,
  containers: readonly ContainerFacts[],
): Promise<boolean> {
  const redirectOf = new Map((await listSiteHosts(deps.db, project)).map(({ host, redirectTo }) => [host, redirectTo]));
  const leaving = new Set(
    containers.flatMap(({ desired, observation }) => (desired === "stopped" ? [observation?.upstream ?? ""] : [])),
  );
  return haveEdgesLeft({ ...deps, edges: () => edgesInRotation(deps.db) }, [...redirectOf.keys()], (route, host) => {
    if (project.suspended_at === null) return !route?.proxy?.upstreams.some((upstream) => leaving.has(upstream));
    return redirectOf.get(host) === null ? route?.page?.page === "PAGE_SUSPENDED" : route?.redirect !== undefined;
  });
}
