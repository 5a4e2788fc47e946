import { storedManifestSchema } from "@svc/proto";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job } from "../../../stores/db/tables.ts";
import { dropAlertsOf } from "../alert.ts";
import { definitionsOf, settle, switchJobs } from "./rules.ts";
import {
  announceJobs,
  insertJobs,
  type JobPlace,
  lockLiveJobs,
  lockRetiredJobs,
  readSituation,
  retireJobs,
  setUserEnabled,
  updateJob,
  wakeRuns,
  writeSettled,
} from "./store.ts";

/**
 * Gives a channel the jobs of the deployment that it serves (null: none), in the transaction that points it there: what
 * visitors see and what runs by schedule are never of two versions. Repeated, it changes nothing.
 */
export async function switchChannelJobs(tx: Db, place: JobPlace, deploymentId: string | null): Promise<void> {
  const isHere = ({ channel, pr_number }: Job) => channel === place.channel && pr_number === (place.pr_number ?? 0);
  const live = (await lockLiveJobs(tx, [place.project_id])).filter(isHere);
  const deployment =
    deploymentId === null
      ? undefined
      : await tx.selectFrom("deployment").select("manifest").where("id", "=", deploymentId).executeTakeFirst();
  const wanted = deployment === undefined ? [] : definitionsOf(storedManifestSchema.parse(deployment.manifest));
  const names = wanted.map(({ name }) => name);
  const known = [...live, ...(await lockRetiredJobs(tx, place, names))];
  if (known.length === 0 && wanted.length === 0) return;
  const { added, kept, retired } = switchJobs(known, wanted);
  if (deploymentId !== null) {
    await insertJobs(tx, place, deploymentId, added);
    for (const { id, definition, countsAnew } of kept)
      await updateJob(tx, id, deploymentId, definition, { countsAnew });
  }
  await retireJobs(tx, retired);
  await dropAlertsOf(
    tx,
    known.filter(({ id }) => retired.includes(id)),
  );
  // Runs that have not begun go on in what is served now, or end with their job.
  await wakeRuns(tx, [...kept.map(({ id }) => id), ...retired]);
  await settleJobs(tx, place.project_id);
}

/**
 * Pauses jobs of a project and ends their pauses as its suspension, production's stop and the plan of its owner want it, in a
 * transaction that changes one of these. Repeated, it changes nothing. Returns how many jobs changed.
 */
export async function settleJobs(tx: Db, projectId: string): Promise<number> {
  const jobs = await lockLiveJobs(tx, [projectId]);
  // Read with the jobs locked: who changes something of it now has to wait for them, and settles after this.
  const situation = jobs.length === 0 ? null : await readSituation(tx, projectId);
  if (situation === null) return 0;
  const settled = settle(jobs, situation);
  if (settled.length === 0) return 0;
  await writeSettled(tx, settled);
  const paused = settled.filter(({ pause_reason }) => pause_reason !== null);
  await wakeRuns(
    tx,
    paused.map(({ id }) => id),
  );
  await announceJobs(tx);
  return settled.length;
}

/** Its owner has a job scheduled or not, for all deployments to come; null: the project has none of that id any more. */
export async function requestScheduled(
  tx: Db,
  projectId: string,
  jobId: string,
  enabled: boolean,
): Promise<Job | null> {
  // The clock begins a run of it before this, or not any more.
  const job = (await lockLiveJobs(tx, [projectId])).find(({ id }) => id === jobId);
  if (job === undefined) return null;
  await setUserEnabled(tx, job.id, enabled);
  await settleJobs(tx, projectId);
  return job;
}

/** Ends all jobs of projects that go; their rows go with the projects. */
export async function retireProjectJobs(tx: Db, projectIds: readonly string[]): Promise<void> {
  if (projectIds.length === 0) return;
  const ids = (await lockLiveJobs(tx, projectIds)).map(({ id }) => id);
  await retireJobs(tx, ids);
  await wakeRuns(tx, ids);
}
