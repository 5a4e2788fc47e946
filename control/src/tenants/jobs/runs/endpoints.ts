import {
  idParams,
  isJobRunOver,
  jobParams,
  jobRunDetailReply,
  jobRunLogsQuery,
  jobRunLogsReply,
  jobRunParams,
  jobRunReply,
  jobRunsQuery,
  jobRunsReply,
  limits,
} from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import type { Caller } from "../../../http/caller.ts";
import { ApiError } from "../../../http/errors.ts";
import { takeAttempt } from "../../../identity/limits/attempts.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { readAttemptLog } from "./log.ts";
import { requestCancel, requestRun } from "./request.ts";
import { findListedRun, type ListedRun, listRuns, listShownAttempts } from "./store.ts";
import { attemptView, jobRunView, numbered } from "./view.ts";

const path = "/projects/:id/job-runs";

/** Each leaves rows behind, also one that is canceled at once: so many an account asks for by hand. */
const askingForRuns = { capacity: 120, secondsPerToken: 1 };

const view = (run: ListedRun) => jobRunView({ ...run, id: run.job_id }, run);

/** A run of the caller's project. Throws NOT_FOUND. */
async function getRun(db: Db, caller: Pick<Caller, "userId" | "projectIds">, params: { id: string; runId: string }) {
  const project = await getProject(db, caller, params.id);
  const run = await findListedRun(db, project.id, params.runId);
  if (run === null) throw new Refused("NOT_FOUND");
  return { project, run };
}

const begin = endpoint({
  method: "POST",
  path: "/projects/:id/jobs/:jobId/run",
  access: { scope: "jobs:write" },
  summary: "Run a job now, also while it is not scheduled. A run of it that waits already is what is answered with.",
  params: jobParams,
  status: 202,
  reply: jobRunReply,
  errors: [
    ...(["SUSPENDED", "PLAN_FEATURE_UNAVAILABLE", "SCOPE_UNAVAILABLE", "ARTIFACT_UNAVAILABLE"] as const),
    ...(["IDEMPOTENCY_CONFLICT", "RATE_LIMITED"] as const),
  ],
  handle({ createOnce }, { caller, params, address, idempotencyKey }) {
    const request = ["POST /projects/:id/jobs/:jobId/run", params.id, params.jobId];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      // Who stops, suspends or deploys it does so after this, or before: what is decided on stays until then.
      const project = await getProject(tx, caller, params.id, { lock: true });
      const wait = await takeAttempt(tx, { what: "job-run", whose: project.owner_id }, askingForRuns);
      if (wait !== null) {
        const message = `Runs of your jobs were asked for often just now. Try again in ${wait} s.`;
        throw new ApiError("RATE_LIMITED", { message, retryAfterSeconds: wait });
      }
      const requestedBy = { userId: caller.userId, tokenId: caller.tokenId };
      const { job, run } = await requestRun(tx, project, params.jobId, requestedBy);
      const { name, channel, pr_number } = job;
      const detail = { job: name, channel, ...(pr_number > 0 && { prNumber: pr_number }), runId: run.id };
      await recordAudit(tx, { caller, address, action: "job.run", target: project.id, detail });
      return { run: jobRunView(job, { ...run, exit_code: null }) };
    });
  },
});

const list = endpoint({
  method: "GET",
  path,
  access: { scope: "jobs:read" },
  summary: "Runs of the scheduled jobs of a project, the newest first.",
  params: idParams,
  query: jobRunsQuery,
  badQuery: "INVALID_INPUT",
  reply: jobRunsReply,
  async handle({ db }, { caller, params, query }) {
    const project = await getProject(db, caller, params.id);
    const { limit, cursor, channel, deployment, status, name } = query;
    const listing = [project.id, ...[channel, deployment, status, name].map((filter) => filter ?? null)];
    const before = cursor === undefined ? undefined : readCursor(listing, cursor);
    if (before === null) {
      throw new Refused(
        "INVALID_INPUT",
        "cursor is not the nextCursor of this list, with these filters. Leave it out.",
      );
    }
    const found = await listRuns(db, project.id, { channel, deployment, status, name, before }, limit + 1);
    const runs = found.slice(0, limit);
    const last = runs.at(-1);
    const nextCursor = found.length > limit && last !== undefined ? writeCursor(listing, last.number) : null;
    return { runs: runs.map(view), nextCursor };
  },
});

const read = endpoint({
  method: "GET",
  path: `${path}/:runId`,
  access: { scope: "jobs:read" },
  summary: "A run of a scheduled job, and its attempts.",
  params: jobRunParams,
  reply: jobRunDetailReply,
  async handle({ db }, { caller, params }) {
    const { run } = await getRun(db, caller, params);
    const attempts = await listShownAttempts(db, run.id);
    const isOver = isJobRunOver(run.status);
    return {
      run: view(run),
      attempts: numbered(attempts).map(({ attempt, row }) => attemptView(attempt, row, isOver)),
    };
  },
});

const logs = endpoint({
  method: "GET",
  path: `${path}/:runId/logs`,
  access: { scope: "jobs:read", and: "logs:read" },
  summary: "What an attempt at a run wrote, the newest one unless one is named. Of much output the middle is left out.",
  params: jobRunParams,
  query: jobRunLogsQuery,
  badQuery: "INVALID_INPUT",
  reply: jobRunLogsReply,
  errors: ["NOT_FOUND"],
  async handle({ db }, { caller, params, query }) {
    const { run } = await getRun(db, caller, params);
    const attempts = numbered(await listShownAttempts(db, run.id));
    const wanted = query.attempt ?? attempts.at(-1)?.attempt ?? 1;
    const found = attempts.find(({ attempt }) => attempt === wanted);
    if (found === undefined && query.attempt !== undefined) {
      throw new Refused(
        "INVALID_INPUT",
        `attempt: the run has ${attempts.length === 0 ? "none yet" : attempts.length}.`,
      );
    }
    const { log, omittedBytes } =
      found === undefined
        ? { log: "", omittedBytes: 0 }
        : await readAttemptLog(db, found.row.id, limits.jobLogBytesMax);
    // The last bytes of a command may come a moment after its end.
    const isNewest = wanted === (attempts.at(-1)?.attempt ?? 1);
    return { attempt: wanted, log, omittedBytes, live: isNewest && !isJobRunOver(run.status) };
  },
});

const cancel = endpoint({
  method: "POST",
  path: `${path}/:runId/cancel`,
  access: { scope: "jobs:write" },
  summary:
    "End a run. One that waits is over at once; of one that runs the command is asked to end. Repeated, it changes nothing.",
  params: jobRunParams,
  status: 202,
  reply: jobRunReply,
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id);
      const change = await requestCancel(tx, project.id, params.runId);
      const listed = await findListedRun(tx, project.id, params.runId);
      if (listed === null) throw new Refused("NOT_FOUND");
      if (change !== null) {
        const detail = { job: listed.name, channel: listed.channel, runId: listed.id };
        await recordAudit(tx, { caller, address, action: "job.cancel", target: project.id, detail });
      }
      return { run: view(listed) };
    }),
});

export const jobRunEndpoints = [begin, list, read, logs, cancel];
