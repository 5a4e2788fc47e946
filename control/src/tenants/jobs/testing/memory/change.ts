import { jobRunTopic, jobTopic } from "../../../../fleet/cluster/topics.ts";
import type { Job } from "../../../../stores/db/tables.ts";
import type { Tx } from "../../../deployments/testing/memory/tables.ts";
import { type Definition, type Situation, settle, switchJobs } from "../../definitions/rules.ts";

/** As `switchChannelJobs` of `definitions/change.ts`, of production. */
export function switchChannelJobs(tx: Tx, projectId: string, deploymentId: string | null): void {
  const { tables, now, notify } = tx;
  const known = [...tables.jobs.jobs.values()].filter(({ project_id }) => project_id === projectId);
  const wanted = deploymentId === null ? [] : (tables.jobs.definitions.get(deploymentId) ?? []);
  if (known.length === 0 && wanted.length === 0) return;
  const { added, kept, retired } = switchJobs(known, wanted);
  if (deploymentId !== null) {
    for (const definition of added) insertJob(tx, projectId, deploymentId, definition);
    for (const { id, definition, countsAnew } of kept) {
      Object.assign(tables.jobs.jobs.get(id) ?? {}, {
        ...columnsOf(definition),
        ...{
          deployment_id: deploymentId,
          retired_at: null,
          updated_at: now,
          ...(countsAnew && { next_fire_at: null }),
        },
      });
    }
  }
  for (const id of retired) {
    const gone = { retired_at: now, next_fire_at: null, pause_reason: null, updated_at: now };
    Object.assign(tables.jobs.jobs.get(id) ?? {}, gone);
  }
  if (kept.length + retired.length > 0) notify(jobRunTopic);
  settleJobs(tx, projectId);
}

const columnsOf = ({ enabled, timeoutSeconds, schedule, timezone, retries, overlap }: Definition) => ({
  ...{ schedule, timezone, retries, overlap, timeout_seconds: timeoutSeconds, source_enabled: enabled },
});

function insertJob({ tables, now }: Tx, projectId: string, deploymentId: string, definition: Definition): void {
  const id = tables.id("j");
  const isTaken = tables.jobs.live(projectId).some(({ name }) => name === definition.name);
  if (isTaken) throw new Error(`duplicate key: there is a job ${definition.name}`);
  tables.jobs.jobs.set(id, {
    ...{ id, project_id: projectId, channel: "production", pr_number: 0, name: definition.name },
    ...{ deployment_id: deploymentId, ...columnsOf(definition), user_enabled: null, pause_reason: null },
    ...{ next_fire_at: null, last_fire_at: null, last_success_at: null, retired_at: null },
    ...{ created_at: now, updated_at: now },
  });
}

/** As `readSituation` of `definitions/store.ts`. */
export function situationOf({ tables, now }: Tx, projectId: string): Situation {
  return {
    ...{ now, isSuspended: tables.suspended.has(projectId) },
    isStopped: tables.siteOf(projectId)?.stopped ?? false,
    maxScheduledJobs: tables.jobs.maxScheduledJobs,
  };
}

/** As `settleJobs` there. */
export function settleJobs(tx: Tx, projectId: string): number {
  const { tables, notify } = tx;
  const settled = settle(tables.jobs.live(projectId), situationOf(tx, projectId));
  if (settled.length === 0) return 0;
  for (const { id, ...change } of settled)
    Object.assign(tables.jobs.jobs.get(id) ?? {}, { ...change, updated_at: tx.now });
  if (settled.some(({ pause_reason }) => pause_reason !== null)) notify(jobRunTopic);
  notify(jobTopic);
  return settled.length;
}

/** As `requestScheduled` there. */
export function requestScheduled(tx: Tx, projectId: string, jobId: string, enabled: boolean): Job | null {
  const job = tx.tables.jobs.live(projectId).find(({ id }) => id === jobId);
  if (job === undefined) return null;
  const before = { ...job };
  Object.assign(job, { user_enabled: enabled, updated_at: tx.now });
  settleJobs(tx, projectId);
  return before;
}
