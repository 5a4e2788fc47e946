import {
  type JobReply,
  type JobRunReply,
  job,
  jobAttempt,
  jobRun,
  jobRunReply,
  jobRunStatuses,
  jobRunsReply,
} from "@svc/proto";
import { z } from "zod";
import { findJobId, type JobScope, listJobs, runIdOf, scopeQuery, withQuery } from "../../jobs/find.ts";
import { whyNotScheduled } from "../../jobs/lines.ts";
import { readRunOutput } from "../../jobs/output.ts";
import { postOnce } from "../../post-once.ts";
import { targetFacts } from "../../target.ts";
import type { Call } from "../call.ts";
import { lastPage } from "../fit.ts";
import { tool, untrusted } from "../tool.ts";
import { takes } from "./fields.ts";
import { filtered, pageOutput } from "./logs.ts";

const runFields = jobRun.omit({ message: true });
const jobFields = job.omit({ lastRun: true }).extend({
  lastRun: runFields.nullable(),
  whyNotScheduled: z.array(z.string()).describe("Empty: it is scheduled"),
});

const runOf = ({ message: _message, ...run }: JobRunReply): z.input<typeof runFields> => run;
const jobOf = (each: JobReply): z.input<typeof jobFields> => ({
  ...each,
  lastRun: each.lastRun === null ? null : runOf(each.lastRun),
  whyNotScheduled: whyNotScheduled(each),
});

const messages = untrusted({
  messages: z.record(z.string(), z.string()).describe("Why runs are as they are, by their ids"),
});
const messagesOf = (runs: readonly (JobRunReply | null)[]) => ({
  messages: Object.fromEntries(
    runs.flatMap((run) => (run === null || run.message === null ? [] : [[run.id, run.message]])),
  ),
});

/** Which scope of definitions is meant. */
const scopeInput = {
  channel: takes.channel.describe("Default: production; preview is the one that belongs to no pull request"),
  deploymentId: takes.deploymentId.optional().describe("Of exactly this deployment: that of a pull request, say"),
};

async function scopeOf(
  call: Call,
  { channel, deploymentId }: { channel?: JobScope["channel"]; deploymentId?: string | undefined },
): Promise<JobScope> {
  const target = await call.target();
  const id = deploymentId === undefined ? undefined : await call.deploymentId(deploymentId);
  return { api: call.api, projectId: target.id, project: targetFacts(target), channel, deploymentId: id };
}

const listJobsTool = tool({
  name: "list_jobs",
  title: "List scheduled jobs",
  description: "What the manifest schedules: when each job runs next, how it went last, and why one is not scheduled.",
  effect: "reads",
  input: scopeInput,
  output: { jobs: z.array(jobFields), untrusted: messages },
  async run(call, given) {
    const { jobs } = await listJobs(await scopeOf(call, given));
    return { jobs: jobs.map(jobOf), untrusted: messagesOf(jobs.map(({ lastRun }) => lastRun)) };
  },
});

const runsDefault = 10;
const runsMax = 20;

const jobRuns = tool({
  name: "job_runs",
  title: "List runs of jobs",
  description: "Runs of scheduled jobs, newest first, with how each ended. The output of one is job_log's.",
  effect: "reads",
  input: {
    name: z.string().max(200).optional().describe("Of this job; default: of all"),
    status: z.enum(jobRunStatuses).optional(),
    channel: takes.channel,
    deploymentId: takes.deploymentId.optional(),
    limit: z.int().min(1).max(runsMax).optional().describe(`Default: ${runsDefault}`),
    cursor: z.string().max(200).optional().describe("nextCursor of the answer before"),
  },
  output: { runs: z.array(runFields), nextCursor: z.string().nullable(), untrusted: messages },
  async run(call, { name, status, limit = runsDefault, cursor, ...given }) {
    const scope = await scopeOf(call, given);
    const query = scopeQuery(scope);
    for (const [key, value] of Object.entries({ status, limit, cursor, name }))
      if (value !== undefined) query.set(key, String(value));
    const path = withQuery(`/projects/${scope.projectId}/job-runs`, query);
    const { runs, nextCursor } = await call.api.get(path, jobRunsReply);
    return { runs: runs.map(runOf), nextCursor, untrusted: messagesOf(runs) };
  },
});

const jobLog = tool({
  name: "job_log",
  title: "Read the output of a run",
  description:
    "The end of what a run of a job printed, of its newest attempt unless another is named; older parts with the cursor.",
  effect: "reads",
  input: {
    runId: z.string().describe("As job_runs and list_jobs tell it"),
    attempt: z.int().min(1).max(1000).optional(),
    since: takes.since,
    grep: takes.grep,
    cursor: takes.cursor,
  },
  output: {
    run: runFields,
    attempts: z.array(jobAttempt.omit({ message: true })),
    attempt: z.number().nullable().describe("Whose output this is; null: none has begun"),
    live: z.boolean().describe("Whether more may come"),
    olderCursor: pageOutput.olderCursor,
    untrusted: untrusted({ log: z.string(), message: z.string().nullable().optional() }),
  },
  async run(call, { runId, attempt, since, grep, cursor }) {
    const { id: projectId } = await call.target();
    const source = { api: call.api, projectId, runId: runIdOf(runId), attempt };
    const { run, attempts, output } = await readRunOutput(source);
    const log = filtered(output?.log ?? "", call.context.clock.now(), { since, grep });
    const { text, olderCursor } = lastPage(log, cursor === undefined ? undefined : Number(cursor));
    return {
      run: runOf(run),
      attempts: attempts.map(({ message: _message, ...each }) => each),
      attempt: output?.attempt ?? null,
      live: output?.live ?? false,
      olderCursor,
      untrusted: { log: text, ...(run.message !== null && { message: run.message }) },
    };
  },
});

const runJob = tool({
  name: "run_job",
  title: "Run a job now",
  description:
    "Starts a run of a scheduled job, also of one that is disabled. What the job's command does it does for real. See how it goes with job_log.",
  effect: "changes",
  input: { job: z.string().min(1).max(200).describe("Its name or id; see list_jobs"), ...scopeInput },
  output: { run: runFields, untrusted: messages },
  async run(call, { job: named, ...given }) {
    const scope = await scopeOf(call, given);
    const id = await findJobId(scope, named);
    const { run } = await postOnce(call.context, call.api, `/projects/${scope.projectId}/jobs/${id}/run`, jobRunReply);
    return { run: runOf(run), untrusted: messagesOf([run]) };
  },
});

export const jobTools = [listJobsTool, jobRuns, jobLog, runJob];
