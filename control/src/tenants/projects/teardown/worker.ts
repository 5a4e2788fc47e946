import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import { announceGone } from "../../../fleet/agents/gone.ts";
import type { Collector } from "../../../fleet/artifacts/collect.ts";
import { recordUnannounced } from "../../../fleet/artifacts/store.ts";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { keys } from "../../../fleet/cluster/keys.ts";
import { routeTopic } from "../../../fleet/cluster/topics.ts";
import { haveEdgesLeft, type IsLeft } from "../../../fleet/routes/left.ts";
import { edgesInRotation } from "../../../fleet/routes/progress.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { endRuns } from "../../../fleet/tasks/runs.ts";
import type { Log } from "../../../log.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { forgetSecretsOf } from "../../databases/dropped/store.ts";
import { listBranches } from "../../databases/store.ts";
import type { Teardown } from "./request.ts";

export interface TeardownDeps {
  clock: Clock;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  collector: Collector;
  log: Log;
}

/** Work that was queued by a control of before names no hosts. */
type Queued = Pick<Teardown, "projectId"> & Partial<Teardown>;

/** After a failure of a store: what was promised is never given up, so this does not count as an attempt. */
const retryMs = 5_000;

/**
 * Work of kind `teardown`: takes a deleted project off the edges, then off the nodes, then out of the registry, and
 * drops its rows last. Each round does what is possible now and comes back for the rest, so one that is cut off
 * anywhere is simply done again. A node or an edge that is away is waited for, until it is back or fenced.
 */
export function teardownWorker(deps: TeardownDeps): WorkHandler {
  const { db, log } = deps;
  return async (item, signal) => {
    const { projectId, hosts = [] } = item.payload as Queued;
    try {
      const project = await db.selectFrom("project").select("id").where("id", "=", projectId).executeTakeFirst();
      if (project === undefined) return { state: "done" };
      const isOff = (await isOffEdges(deps, projectId, hosts)) && (await isOffNodes(deps, projectId));
      const hasBranches = (await listBranches(db, projectId)).length > 0;
      if (!isOff || hasBranches || !(await isOutOfRegistry(deps, projectId)))
        return { retryAfterMs: recheckAfterMs(item.ageMs), refund: true };
      const isDeleted = await db.transaction().execute((tx) => deleteRows(tx, projectId));
      if (!isDeleted) return { retryAfterMs: recheckAfterMs(item.ageMs), refund: true };
      // Agents also ask by themselves.
      await announceGone(db, projectId);
      log.info({ projectId, to: "deleted" }, "project");
      return { state: "done" };
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ err: error, projectId }, "the teardown of a project did not get on");
      const message = error instanceof Error ? error.message : String(error);
      return { retryAfterMs: retryMs, refund: true, error: message };
    }
  };
}

/**
 * No published route names the project, and every edge in rotation serves its hosts as that table says. They may be
 * another's by now, and the table may name it under others than those.
 */
async function isOffEdges(deps: TeardownDeps, projectId: string, hosts: readonly string[]): Promise<boolean> {
  const { db, fleet } = deps;
  const isLeft: IsLeft = (route) => route?.projectId !== projectId;
  const isPublished = hosts.every((host) => isLeft(fleet.route(host), host));
  if (isPublished && !(await haveEdgesLeft({ ...deps, edges: () => edgesInRotation(db) }, hosts, isLeft))) return false;
  // The whole table is looked through only once nothing else is waited for.
  if (isPublished && !fleet.isRouted(projectId)) return true;
  await notify(db, routeTopic, projectId);
  return false;
}

/** Agents have confirmed that nothing of the project runs, or never will answer again. */
async function isOffNodes(deps: TeardownDeps, projectId: string): Promise<boolean> {
  const { db } = deps;
  const tasks = await db
    .selectFrom("task")
    .select("id")
    .where("project_id", "=", projectId)
    .where("reaped_at", "is", null)
    .execute();
  await removeTasks(
    db,
    tasks.map(({ id }) => id),
  );
  await forgetRunsOfGoneNodes(deps, projectId);
  const runsEnded = await endRuns(deps, (run) => run.projectId === projectId);
  return tasks.length === 0 && runsEnded;
}

/** A node that was fenced or removed will never tell how a run ended. */
async function forgetRunsOfGoneNodes({ db, etcd, fleet }: TeardownDeps, projectId: string): Promise<void> {
  const runs = fleet.runs().filter(({ run }) => run.projectId === projectId);
  if (runs.length === 0) return;
  const rows = await db
    .selectFrom("node")
    .select("id")
    .where("id", "in", [...new Set(runs.map(({ nodeId }) => nodeId))])
    .where("lifecycle", "!=", "active")
    .execute();
  const gone = new Set(rows.map(({ id }) => id));
  for (const { nodeId, run, modRevision } of runs) {
    const key = keys.run(nodeId, run.attemptId);
    if (!gone.has(nodeId)) continue;
    await etcd.txn({ guards: [{ key, compare: "modRevision", value: modRevision }], ops: [{ delete: { key } }] });
  }
}

/** All that was pushed for it is deleted. An upload that is still under way is the collector's, once it has ended. */
async function isOutOfRegistry({ db, collector }: TeardownDeps, projectId: string): Promise<boolean> {
  await recordUnannounced(db, projectId);
  return collector.collectProject(projectId);
}

/**
 * Deletes all that belongs to a project. What refers to it by a foreign key goes with its row. Kept by intent: audit,
 * which outlives what it tells of, and what is only counted or remembered for a day (accepted deployments, answered
 * requests). Volumes and copies of its databases, and what is known of those, stay until nodes have removed them: without
 * passwords, and nobody brings them back. False, and nothing is deleted: a task was made since there was none that is not over, and
 * without its row nobody would take its container away.
 */
export async function deleteRows(tx: Db, projectId: string): Promise<boolean> {
  // What is written for a deployment or a task holds its row: from here on nothing is added to what is deleted below.
  await sql`select from project where id = ${projectId} for update`.execute(tx);
  await sql`select from deployment where project_id = ${projectId} order by number desc for update`.execute(tx);
  const { rows: tasks } = await sql<{ isOver: boolean }>`
    select reaped_at is not null as "isOver" from task where project_id = ${projectId} order by epoch for update`.execute(
    tx,
  );
  if (tasks.some(({ isOver }) => !isOver)) return false;
  // In the order in which the end of a job's run is written down.
  await sql`select from job where project_id = ${projectId} order by id for update`.execute(tx);
  await sql`select from job_run where project_id = ${projectId} order by number for update`.execute(tx);
  await sql`select from run where project_id = ${projectId} order by id for update`.execute(tx);
  await sql`delete from log_chunk where stream_id in (
    select id::text from task where project_id = ${projectId}
    union all
    select id::text from run where project_id = ${projectId})`.execute(tx);
  await sql`delete from work_item where state in ('done', 'failed') and (
    key = ${projectId} or payload ->> 'projectId' = ${projectId}
    or payload ->> 'deploymentId' in (select id::text from deployment where project_id = ${projectId}))`.execute(tx);
  // By task, as they are indexed: there may be millions of samples of others.
  await sql`delete from resource_sample
    where task_id = any(array(select id from task where project_id = ${projectId}))`.execute(tx);
  await tx.deleteFrom("task").where("project_id", "=", projectId).execute();
  await tx.deleteFrom("run").where("project_id", "=", projectId).execute();
  await forgetSecretsOf(tx, projectId);
  await tx.deleteFrom("channel_state").where("project_id", "=", projectId).execute();
  await tx.deleteFrom("project").where("id", "=", projectId).execute();
  return true;
}
