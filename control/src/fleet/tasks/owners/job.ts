import { openJobRunStatuses } from "@svc/proto";
import { sql } from "kysely";
import { loadDeployments } from "./deployment.ts";
import type { Owner, OwnerFacts } from "./owner.ts";

/**
 * A run of a scheduled job has attempts, which begin one after another. What they run in is its deployment's. It never begins
 * one anew of which nobody knows how it went.
 */
export const job: Owner<OwnerFacts["job"]> = {
  async loadFacts({ db, secrets }, work) {
    const ids = [...new Set(work.map(({ ownerId }) => ownerId))];
    const rows = await db
      .selectFrom("job_run")
      .innerJoin("job", "job.id", "job_run.job_id")
      .selectAll("job_run")
      .select("job.name as job_name")
      .select((of) =>
        of
          .selectFrom("run")
          .select(({ fn }) => fn.countAll<number>().as("count"))
          .whereRef("run.owner_id", "=", "job_run.id")
          .where("run.outcome", "is not", null)
          .where("run.outcome", "!=", "not_started")
          .as("begun"),
      )
      .where("job_run.id", "=", sql<string>`any(${ids}::uuid[])`)
      .execute();
    const deployments = await loadDeployments({ db, secrets }, [
      ...new Set(rows.map(({ deployment_id }) => deployment_id)),
    ]);
    return new Map(
      rows.flatMap(({ job_name: jobName, begun, ...run }) => {
        const openDeployment = deployments.get(run.deployment_id);
        if (openDeployment === undefined) return [];
        return [[run.id, () => ({ ...openDeployment(), run, jobName, attempt: Number(begun ?? 0) + 1 })]];
      }),
    );
  },

  async listWhose(db, ids) {
    const rows = await db
      .selectFrom("job_run")
      .innerJoin("job", "job.id", "job_run.job_id")
      .innerJoin("project", "project.id", "job.project_id")
      .select(["job_run.id", "job.channel", "job.pr_number", "project.slug"])
      .where("job_run.id", "in", ids)
      .execute();
    return new Map(
      rows.map(({ id, slug, channel, pr_number }) => [
        id,
        { project: slug, channel, prNumber: pr_number === 0 ? null : pr_number },
      ]),
    );
  },

  async findImageRepository(db, id) {
    const row = await db
      .selectFrom("job_run")
      .innerJoin("deployment", "deployment.id", "job_run.deployment_id")
      .select("deployment.artifact_repository")
      .where("job_run.id", "=", id)
      .where("deployment.artifact_digest", "is not", null)
      .executeTakeFirst();
    return row?.artifact_repository ?? null;
  },

  async listWaiting(db, ids) {
    const rows = await db
      .selectFrom("job_run")
      .select("id")
      .where("id", "in", ids)
      .where("status", "in", [...openJobRunStatuses])
      .execute();
    return rows.map(({ id }) => id);
  },

  // What was not granted when etcd was lost has certainly not begun: its row says so, and it is offered again.
  listOpenAttempts: (db) =>
    db
      .selectFrom("run")
      .innerJoin("job_run", "job_run.id", "run.owner_id")
      .select(["run.id as attemptId", "run.kind", "run.owner_kind as ownerKind", "run.owner_id as ownerId"])
      .select(["run.project_id as projectId", "run.node_id as nodeId"])
      .where("run.kind", "=", "job")
      .where("run.outcome", "is", null)
      .where("job_run.status", "in", ["running", "cancel_requested"])
      .execute(),

  async hold(tx, id) {
    const row = await tx.selectFrom("job_run").select("id").where("id", "=", id).forKeyShare().executeTakeFirst();
    return row !== undefined;
  },

  // It has attempts only, and no task.
  lockForRedo: async () => false,
  // It has no timeline: what there is to say is in its status.
  hasLine: async () => true,
  isNewLine: async () => false,
  addLine: async () => {},
};
