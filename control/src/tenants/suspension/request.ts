import type { SuspendReason } from "@svc/proto";
import { sql } from "kysely";
import { raiseAlert } from "../../fleet/alerts/raise.ts";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { endDrains } from "../../fleet/tasks/change.ts";
import { insertEvent } from "../../fleet/tasks/deployment.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import { wakeWork } from "../../stores/work/wake.ts";
import { resumeBranches, wakeBranchesOf } from "../databases/store.ts";
import { settleJobs } from "../jobs/definitions/change.ts";
import { listServed } from "./store.ts";

/**
 * Suspends `project`, whose row the caller has locked: from the commit on nobody deploys to it, its hosts get the
 * platform's page, and a worker stops its containers. What its channels serve is kept in mind, and so is what its owner
 * had stopped. A resumption that is under way is taken back.
 */
export async function suspendProject(tx: Db, project: Project, reason: SuspendReason): Promise<void> {
  await tx
    .updateTable("project")
    .set(({ eb }) => ({
      suspended_at: sql<Date>`now()`,
      suspend_reason: reason,
      suspension_number: eb("suspension_number", "+", 1),
      resuming_at: null,
      unrouted_at: null,
      updated_at: sql<Date>`now()`,
    }))
    .where("id", "=", project.id)
    .execute();
  // One that was being resumed has been told of already.
  if (project.suspended_at === null) await tellAll(tx, project.id, "suspended", byWhom[reason]);
  if (project.suspended_at === null)
    await raiseAlert(tx, {
      projectId: project.id,
      event: "suspended",
      subject: "",
      detail: `It was suspended ${why[reason]}.`,
    });
  await endDrains(tx, { projectIds: [project.id] });
  await wakeBranchesOf(tx, [project.id]);
  await settleJobs(tx, project.id);
  await notify(tx, routeTopic, project.id);
  await wake(tx, project.id);
}

const why: Readonly<Record<SuspendReason, string>> = {
  admin: "by an administrator",
  quota: "because the month's quota of its owner is used up",
};

const byWhom: Readonly<Record<SuspendReason, string>> = {
  admin: "by an administrator",
  quota: "the month's quota is used up",
};

/**
 * Begins to resume `project`, whose row the caller has locked and which is suspended; asked again, the same goes on. It
 * stays suspended until a worker has brought up what it served. With `quotaWaivedUntil` it is not suspended for its
 * owner's quota before then.
 */
export async function requestResume(
  tx: Db,
  project: Project,
  { quotaWaivedUntil = null }: { quotaWaivedUntil?: Date | null } = {},
): Promise<void> {
  if (quotaWaivedUntil !== null)
    await tx
      .updateTable("project")
      .set({ quota_waived_until: quotaWaivedUntil })
      .where("id", "=", project.id)
      .execute();
  if (project.resuming_at === null)
    await tx
      .updateTable("project")
      .set(({ eb }) => ({
        suspension_number: eb("suspension_number", "+", 1),
        resuming_at: sql<Date>`now()`,
        unrouted_at: null,
      }))
      .where("id", "=", project.id)
      .execute();
  // Beside the containers: an app that is up first tries again until it finds its database.
  await resumeBranches(tx, project.id);
  await wake(tx, project.id);
}

/** A line for the timeline of everything that the project serves. */
export async function tellAll(tx: Db, projectId: string, phase: string, detail: string | null): Promise<void> {
  for (const { id } of await listServed(tx, projectId)) await insertEvent(tx, { deploymentId: id, phase, detail });
}

/** A key of its own: a build, a stop or a rename must not hold it up; the project's row orders them. */
const wake = (tx: Db, projectId: string): Promise<void> =>
  wakeWork(tx, { kind: "suspension", key: `suspension/${projectId}`, payload: { projectId } });
