import { idParams, type JobsQuery, jobParams, jobPatch, jobReply, jobsQuery, jobsReply } from "@svc/proto";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { recordAudit } from "../../../http/audit.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { requestScheduled } from "./change.ts";
import { countJobs, type JobPlace, listJobs, listLastRuns } from "./store.ts";
import { jobView, limitsView } from "./view.ts";

const path = "/projects/:id/jobs";

const list = endpoint({
  method: "GET",
  path,
  access: { scope: "jobs:read" },
  summary:
    "The scheduled jobs of what a channel serves: production unless another one is named. The preview of a pull request is named by the deployment that it serves.",
  params: idParams,
  query: jobsQuery,
  badQuery: "INVALID_INPUT",
  reply: jobsReply,
  errors: ["SCOPE_UNAVAILABLE"],
  async handle({ db }, { caller, params, query }) {
    const project = await getProject(db, caller, params.id);
    const jobs = await listJobs(db, await placeOf(db, project.id, query));
    const [runs, plan, count] = await Promise.all([
      listLastRuns(
        db,
        jobs.map(({ id }) => id),
      ),
      planOfUser(db, project.owner_id),
      countJobs(db, project.id),
    ]);
    return {
      jobs: jobs.map((job) => jobView(job, runs.get(job.id) ?? null)),
      limits: limitsView(plan.max_scheduled_jobs, count),
    };
  },
});

async function placeOf(db: Db, projectId: string, { channel, deployment: id }: JobsQuery): Promise<JobPlace> {
  if (id === undefined) return { project_id: projectId, channel: channel ?? "production", pr_number: null };
  const deployment = await db
    .selectFrom("deployment")
    .select(["project_id", "channel", "pr_number"])
    .where("id", "=", id)
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  if (deployment === undefined) throw new Refused("NOT_FOUND");
  if (channel !== undefined && channel !== deployment.channel)
    throw new Refused("INVALID_INPUT", `That deployment is of the channel ${deployment.channel}, not of ${channel}.`);
  // What is not served has no jobs, and nobody is to take those of another deployment for its own.
  if ((await findChannelState(db, deployment))?.deployment_id !== id)
    throw new Refused(
      "SCOPE_UNAVAILABLE",
      "That deployment is not what its channel serves. Name the one that is, or only the channel.",
    );
  return deployment;
}

const change = endpoint({
  method: "PATCH",
  path: `${path}/:jobId`,
  access: { scope: "jobs:write" },
  summary:
    "Have a job scheduled or not, for all deployments to come. What the manifest or the platform has switched off stays so.",
  params: jobParams,
  body: jobPatch,
  badBody: "INVALID_INPUT",
  reply: jobReply,
  handle: ({ db }, { caller, params, body: { enabled }, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id);
      const job = await requestScheduled(tx, project.id, params.jobId, enabled);
      if (job === null) throw new Refused("NOT_FOUND");
      const { name, channel, pr_number } = job;
      const detail = { job: name, channel, ...(pr_number > 0 && { prNumber: pr_number }) };
      const action = enabled ? "job.enable" : "job.disable";
      await recordAudit(tx, { caller, address, action, target: project.id, detail });
      const after = await tx.selectFrom("job").selectAll().where("id", "=", job.id).executeTakeFirstOrThrow();
      return { job: jobView(after, (await listLastRuns(tx, [job.id])).get(job.id) ?? null) };
    }),
});

export const definitionEndpoints = [list, change];
