import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LeaderOutdated } from "../../fleet/cluster/fenced.ts";
import type { RunValue } from "../../fleet/cluster/keys.ts";
import type { Job, JobRun } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { missedMax } from "./clock/steps.ts";
import type { Definition } from "./definitions/rules.ts";
import type { Conclusion, JobAttempt } from "./runs/rows.ts";
import { type AttemptEnd, unknown } from "./runs/rules.ts";
import type { OpenAttempt } from "./runs/steps.ts";
import { memoryStage, postgresStage, type Stage } from "./testing/memory/stage.ts";

/* What a leader may count on of scheduled jobs, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

const minuteMs = 60_000;
/** Long past, so that no clock of this test comes to it. */
const minute = (at: number): Date => new Date(Date.UTC(2026, 0, 1, 3, at));
const over = ["succeeded", "failed", "timed_out", "canceled", "skipped"];

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of jobs in $store", ({ open }) => {
  let stage: Stage;
  let epoch = 1n;
  beforeAll(async () => {
    stage = await open();
    await stage.lead(epoch);
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  const definition = (name: string, values: Partial<Definition> = {}): Definition => ({
    ...{ name, schedule: "* * * * *", timezone: "UTC", timeoutSeconds: 60, retries: 1, overlap: "skip", enabled: true },
    ...values,
  });
  const jobOf = async (projectId: string, name = "report"): Promise<Job> => {
    const found = (await stage.jobsOf(projectId)).find((job) => job.name === name);
    if (found === undefined) throw new Error(`there is no job ${name}`);
    return found;
  };
  /** A project that serves something with one job. */
  async function served(values: Partial<Definition> = {}) {
    const projectId = await stage.newProject();
    const deploymentId = await stage.newDeployment(projectId, [definition("report", values)]);
    await stage.point(projectId, { deploymentId, stopped: false });
    return { projectId, deploymentId, job: await jobOf(projectId) };
  }
  /** The same with a run of it, begun by hand. */
  async function begun(values: Partial<Definition> = {}) {
    const made = await served(values);
    return { ...made, run: await stage.request(made.projectId, made.job.id) };
  }
  const runOf = async (job: Pick<Job, "id">, at = 0): Promise<JobRun> => {
    const run = (await stage.runsOf(job.id))[at];
    if (run === undefined) throw new Error("there is no such run");
    return run;
  };
  const openOf = async (runId: string) => (await stage.rows.runs.open()).runs.find(({ id }) => id === runId);
  const of = ({ id, job_id: jobId, deployment_id: deploymentId, status }: JobRun) => ({
    ...{ id, jobId, deploymentId, status },
  });
  const made = async (run: JobRun): Promise<JobAttempt> => {
    const attempt = await stage.rows.runs.makeAttempt(epoch, of(run), randomUUID());
    if (attempt === null) throw new Error("there is one already");
    return attempt;
  };
  const running = async (values: Partial<Definition> = {}) => {
    const all = await begun(values);
    const attempt = await made(all.run);
    expect(await stage.rows.runs.markRunning(epoch, of(all.run), attempt.id)).toBe(true);
    return { ...all, attempt, run: await runOf(all.job) };
  };
  const openAttempt = ({ id, number, node_id: nodeId }: JobAttempt, said: Partial<RunValue> = {}): OpenAttempt => ({
    ...{ id, number, nodeId, nodeLostAt: null },
    run: {
      ...{ attemptId: id, kind: "job", ownerKind: "job", ownerId: "", projectId: "", state: "exited", cancel: false },
      ...{ acceptedBy: null, token: null, exitCode: 0, timedOut: false, message: null },
      ...{ startedAt: null, finishedAt: null, changedAt: minute(0).toISOString() },
      ...said,
    },
  });
  const end = (outcome: AttemptEnd["outcome"], values: Partial<AttemptEnd> = {}): AttemptEnd => ({
    ...{ outcome, exitCode: outcome === "succeeded" ? 0 : null, reason: null, message: null },
    ...values,
  });
  const succeeded = (attempt: JobAttempt): Conclusion => ({
    ...{ attempt: openAttempt(attempt), end: end("succeeded") },
    after: { ends: { status: "succeeded", reason: null, message: null } },
  });

  describe("what is open", () => {
    test("is every run that is not over, oldest first, with what decides", async () => {
      const { job, deploymentId, run } = await begun({ retries: 2 });
      const second = await begun();
      expect(await openOf(run.id)).toEqual({
        ...{ id: run.id, jobId: job.id, status: "queued", reason: null, trigger: "manual", attemptCount: 0 },
        ...{ createdAt: run.created_at, retryAt: null, deploymentId, projectGone: false, hasImage: true },
        job: { deploymentId, retries: 2, isRetired: false, pause: null },
      });
      const ids = (await stage.rows.runs.open()).runs.map(({ id }) => id);
      expect(ids.indexOf(run.id)).toBeLessThan(ids.indexOf(second.run.id));
      await stage.cancel(second.projectId, second.run.id);
      expect(await openOf(second.run.id)).toBeUndefined();
    });

    test("says what pauses its job, and that a suspension does at once", async () => {
      const { projectId, run } = await begun();
      await stage.suspend(projectId);
      expect((await openOf(run.id))?.job.pause).toBe("suspended");
    });

    test("has its attempts, oldest first, and none of others", async () => {
      const [one, other] = [await begun(), await begun()];
      const attempt = await made(one.run);
      await made(other.run);
      expect(await stage.rows.runs.attempts([one.run.id])).toMatchObject([
        { id: attempt.id, number: 1, kind: "job", owner_kind: "job", owner_id: one.run.id, project_id: one.projectId },
      ]);
      expect(await stage.rows.runs.attempts([randomUUID()])).toEqual([]);
    });

    test("is asked of a node in the order that was given", async () => {
      const [one, other] = [await begun(), await begun()];
      const requests = await stage.rows.runs.requests([of(other.run), of(one.run)]);
      expect(requests.map(({ id }) => id)).toEqual([other.run.id, one.run.id]);
      expect(requests[1]).toMatchObject({ ownerId: one.run.id, projectId: one.projectId, pinnedTo: null });
      const reserved = await stage.rows.runs.reserved(one.deploymentId);
      expect(reserved).toEqual({
        memoryMb: requests[1]?.memoryMb,
        cpuMillicores: requests[1]?.cpuMillicores,
        pidsLimit: requests[1]?.pidsLimit,
      });
      const gone = randomUUID();
      expect(await stage.rows.runs.requests([{ id: one.run.id, deploymentId: gone }])).toEqual([]);
      expect(await stage.rows.runs.reserved(gone)).toBeUndefined();
      expect(await stage.rows.runs.nodes()).toEqual(expect.any(Array));
    });
  });

  describe("an attempt", () => {
    test("belongs to one node, whoever puts it down first, and is the only one that is open", async () => {
      const { run, job } = await begun();
      const nodes = [randomUUID(), randomUUID()];
      const placed = await Promise.all(nodes.map((nodeId) => stage.rows.runs.makeAttempt(epoch, of(run), nodeId)));
      const [first] = placed.filter((attempt) => attempt !== null);
      expect(placed.filter((attempt) => attempt !== null)).toHaveLength(1);
      expect(nodes).toContain(first?.node_id);
      expect(await stage.attemptsOf(run.id)).toMatchObject([{ id: first?.id, outcome: null, started_at: null }]);
      expect((await runOf(job)).status).toBe("queued");
    });

    test("is not made for a run that is over, or is to run in something else", async () => {
      const { projectId, run } = await begun();
      const elsewhere = { ...of(run), deploymentId: randomUUID() };
      expect(await stage.rows.runs.makeAttempt(epoch, elsewhere, randomUUID())).toBeNull();
      await stage.cancel(projectId, run.id);
      expect(await stage.rows.runs.makeAttempt(epoch, of(run), randomUUID())).toBeNull();
      expect(await stage.attemptsOf(run.id)).toEqual([]);
    });

    test("counts once when it begins, however often it is said", async () => {
      const { run, job } = await begun();
      const attempt = await made(run);
      for (const _ of [1, 2]) expect(await stage.rows.runs.markRunning(epoch, of(run), attempt.id)).toBe(true);
      expect(await runOf(job)).toMatchObject({ status: "running", attempt_count: 1, started_at: expect.any(Date) });
      expect(await stage.attemptsOf(run.id)).toMatchObject([{ started_at: expect.any(Date), outcome: null }]);
    });

    test("does not begin once its run is canceled", async () => {
      const { projectId, run, job } = await begun();
      const attempt = await made(run);
      await stage.cancel(projectId, run.id);
      expect(await stage.rows.runs.markRunning(epoch, of(run), attempt.id)).toBe(false);
      expect(await runOf(job)).toMatchObject({ status: "canceled", attempt_count: 0 });
    });

    test("that succeeded ends its run once, and its job knows", async () => {
      const { run, job, attempt } = await running();
      expect(await stage.rows.runs.conclude(epoch, of(run), succeeded(attempt))).toBe(true);
      expect(await stage.rows.runs.conclude(epoch, of(run), succeeded(attempt))).toBe(false);
      expect(await runOf(job)).toMatchObject({ status: "succeeded", attempt_count: 1, finished_at: expect.any(Date) });
      expect(await stage.attemptsOf(run.id)).toMatchObject([{ outcome: "succeeded", exit_code: 0 }]);
      expect((await jobOf(job.project_id)).last_success_at).toEqual(expect.any(Date));
    });

    test("that failed is followed by another one after its pause", async () => {
      const { run, job, attempt } = await running();
      const startedAt = minute(1).toISOString();
      const failed: Conclusion = {
        attempt: openAttempt(attempt, { startedAt, finishedAt: minute(2).toISOString(), exitCode: 3 }),
        end: end("failed", { exitCode: 3, message: "Exit code 3." }),
        after: { againMs: 10_000, begun: 1, reason: "retry", message: "Exit code 3." },
      };
      expect(await stage.rows.runs.conclude(epoch, of(run), failed)).toBe(true);
      const waits = await runOf(job);
      expect(waits).toMatchObject({ status: "waiting", reason: "retry", attempt_count: 1, finished_at: null });
      expect(waits.retry_at?.getTime()).toBeGreaterThan(run.created_at.getTime());
      expect(await stage.attemptsOf(run.id)).toMatchObject([
        { outcome: "failed", exit_code: 3, message: "Exit code 3.", started_at: minute(1), finished_at: minute(2) },
      ]);
      expect(await made(waits)).toMatchObject({ number: 2 });
    });

    test("that never began is taken back", async () => {
      const [again, last] = [await running(), await running()];
      const never = end("not_started", { reason: "start", message: "No." });
      const back = { againMs: 0, begun: 0, reason: "start", message: "No." };
      await stage.rows.runs.conclude(epoch, of(again.run), {
        ...{ attempt: openAttempt(again.attempt), end: never },
        after: back,
      });
      expect(await runOf(again.job)).toMatchObject({ status: "waiting", attempt_count: 0, started_at: null });
      expect(await stage.attemptsOf(again.run.id)).toMatchObject([{ outcome: "not_started", started_at: null }]);
      const ends = { ends: { status: "failed", reason: "start", message: "No." } } as const;
      await stage.rows.runs.conclude(epoch, of(last.run), {
        attempt: openAttempt(last.attempt),
        end: never,
        after: ends,
      });
      expect(await runOf(last.job)).toMatchObject({ status: "failed", attempt_count: 0, started_at: null });
    });

    test("that somebody canceled meanwhile is looked at once more", async () => {
      const { projectId, run, job, attempt } = await running();
      expect(await stage.cancel(projectId, run.id)).toBe("ask");
      expect(await stage.rows.runs.conclude(epoch, of(run), succeeded(attempt))).toBe(false);
      expect(await stage.attemptsOf(run.id)).toMatchObject([{ outcome: null }]);
      expect((await runOf(job)).status).toBe("cancel_requested");
    });

    test("whose record is gone ends its run, also without a word of it", async () => {
      const { run, job } = await running();
      const after = { ends: { status: "failed", reason: unknown.reason, message: unknown.message } } as const;
      expect(await stage.rows.runs.conclude(epoch, of(run), { attempt: null, end: unknown, after })).toBe(true);
      expect(await runOf(job)).toMatchObject({ status: "failed", reason: "unknown" });
      expect(await stage.attemptsOf(run.id)).toMatchObject([{ outcome: null }]);
    });
  });

  describe("a run that waits", () => {
    test("says why, moves and ends, and nothing of it once it runs", async () => {
      const { run, job, projectId } = await begun();
      const next = await stage.newDeployment(projectId, []);
      const said = { reason: "capacity", message: "No room." };
      for (const _ of [1, 2]) await stage.rows.runs.note(epoch, of(run), said);
      await stage.rows.runs.move(epoch, of(run), next);
      expect(await runOf(job)).toMatchObject({ status: "waiting", ...said, deployment_id: next });
      const ending = { status: "skipped", reason: "missed", message: "Late." } as const;
      expect(await stage.rows.runs.end(epoch, of(run), ending)).toMatchObject({ status: "skipped", reason: "missed" });
      expect(await stage.rows.runs.end(epoch, of(run), ending)).toBeNull();

      const other = await running();
      await stage.rows.runs.note(epoch, of(other.run), said);
      await stage.rows.runs.move(epoch, of(other.run), next);
      expect(await stage.rows.runs.end(epoch, of(other.run), ending)).toBeNull();
      expect(await runOf(other.job)).toMatchObject({
        status: "running",
        reason: null,
        deployment_id: other.deploymentId,
      });
      await stage.rows.runs.ask(epoch, of(other.run), "paused");
      expect(await runOf(other.job)).toMatchObject({ status: "cancel_requested", reason: "paused" });
    });

    test("for the one before it may go on when that ends", async () => {
      const { projectId, job, run, attempt } = await running();
      const second = await stage.request(projectId, job.id);
      expect(second).toMatchObject({ status: "waiting", reason: "overlap" });
      expect((await stage.request(projectId, job.id)).id).toBe(second.id);
      await stage.rows.runs.conclude(epoch, of(run), succeeded(attempt));
      expect(await runOf(job, 1)).toMatchObject({ status: "waiting", reason: null, retry_at: expect.any(Date) });
    });
  });

  test("nothing is done for one who does not lead any more", async () => {
    const { run, job, attempt } = await running();
    const waits = await begun();
    const late = epoch;
    epoch += 1n;
    await stage.lead(epoch);
    const rows = stage.rows.runs;
    const ending = { status: "skipped", reason: "missed", message: "Late." } as const;
    const calls = [
      () => rows.end(late, of(waits.run), ending),
      () => rows.ask(late, of(run), "paused"),
      () => rows.note(late, of(waits.run), { reason: "capacity", message: "No room." }),
      () => rows.move(late, of(waits.run), randomUUID()),
      () => rows.makeAttempt(late, of(waits.run), randomUUID()),
      () => rows.markRunning(late, of(run), attempt.id),
      () => rows.conclude(late, of(run), succeeded(attempt)),
      () => stage.rows.clock.beginDue(late, minute(0), 10),
    ];
    for (const call of calls) await expect(call()).rejects.toBeInstanceOf(LeaderOutdated);
    expect(await runOf(job)).toEqual(run);
    expect(await runOf(waits.job)).toEqual(waits.run);
  });

  describe("the clock", () => {
    /** Whatever other tests have left is begun, so that what follows is of this one alone. */
    const begin = async (now: Date, limit = 10) => stage.rows.clock.beginDue(epoch, now, limit);

    test("tells the time, and when the first job is due", async () => {
      const { job } = await served();
      await stage.dueAt(job.id, minute(-1_000));
      const { now, firstDueAt } = await stage.rows.clock.moment();
      expect(firstDueAt).toEqual(minute(-1_000));
      expect(now.getTime()).toBeGreaterThan(job.created_at.getTime() - 1);
      await begin(minute(-1_000));
      expect((await stage.rows.clock.moment()).firstDueAt?.getTime()).toBeGreaterThanOrEqual(minute(-999).getTime());
      await stage.dueAt(job.id, new Date(now.getTime() + 60 * minuteMs));
    });

    test("begins what is due once, with its instant, and tells of those that nobody was there for", async () => {
      const { job, deploymentId } = await served();
      await stage.dueAt(job.id, minute(0));
      const now = new Date(minute(3).getTime() + 10_000);
      expect(await begin(now)).toMatchObject({ taken: 1, runs: 1, missed: 3, last: [] });
      expect(await begin(now)).toMatchObject({ taken: 0, runs: 0, missed: 0 });
      expect(await stage.runsOf(job.id)).toMatchObject([
        { status: "skipped", reason: "missed", missed: 3, fire_at: minute(2), finished_at: expect.any(Date) },
        { status: "queued", missed: 0, fire_at: minute(3), trigger: "schedule", deployment_id: deploymentId },
      ]);
      expect(await jobOf(job.project_id)).toMatchObject({ last_fire_at: minute(3), next_fire_at: minute(4) });
      // Whoever sets it back by hand does not have it run twice.
      await stage.dueAt(job.id, minute(3));
      expect(await begin(now)).toMatchObject({ taken: 1, runs: 0 });
      expect(await stage.runsOf(job.id)).toHaveLength(2);
      await stage.dueAt(job.id, new Date(job.created_at.getTime() + 60 * minuteMs));
    });

    test("runs nothing that is too late", async () => {
      const { job } = await served({ schedule: "0 * * * *" });
      await stage.dueAt(job.id, minute(0));
      expect(await begin(minute(30))).toMatchObject({ taken: 1, runs: 0, missed: 1 });
      expect(await stage.runsOf(job.id)).toMatchObject([{ status: "skipped", reason: "missed", fire_at: minute(0) }]);
      await stage.dueAt(job.id, new Date(job.created_at.getTime() + 60 * minuteMs));
      expect(missedMax).toBeGreaterThan(1);
    });

    test("takes those first that are due longest, and no more than it may", async () => {
      const made = [await served(), await served(), await served()];
      for (const [at, { job }] of made.entries()) await stage.dueAt(job.id, minute(10 - at));
      expect(await begin(minute(11), 2)).toMatchObject({ taken: 2 });
      const counts = await Promise.all(made.map(async ({ job }) => (await stage.runsOf(job.id)).length));
      expect(counts).toEqual([0, 2, 2]);
      expect(await begin(minute(11), 2)).toMatchObject({ taken: 1 });
      for (const { job } of made) await stage.dueAt(job.id, new Date(job.created_at.getTime() + 60 * minuteMs));
    });

    test.each(["skip", "queue"] as const)("overlap %s", async (overlap) => {
      const { job } = await running({ overlap });
      await stage.dueAt(job.id, minute(0));
      await begin(minute(0));
      await stage.dueAt(job.id, minute(1));
      await begin(minute(1));
      await stage.dueAt(job.id, new Date(job.created_at.getTime() + 60 * minuteMs));
      const first = overlap === "skip" ? "skipped" : "waiting";
      expect((await stage.runsOf(job.id)).map(({ status }) => status)).toEqual(["running", first, "skipped"]);
    });

    test("gives the place of one that found no room to the next", async () => {
      const { job } = await served();
      await stage.dueAt(job.id, minute(0));
      await begin(minute(0));
      const first = await runOf(job);
      await stage.rows.runs.note(epoch, of(first), { reason: "capacity", message: "No room." });
      await begin(minute(1));
      await stage.dueAt(job.id, new Date(job.created_at.getTime() + 60 * minuteMs));
      expect(await stage.runsOf(job.id)).toMatchObject([
        { status: "skipped", reason: "capacity" },
        { status: "queued" },
      ]);
    });

    test("says which job never fires again", async () => {
      const { job } = await served();
      await stage.dueAt(job.id, minute(0), "Mars/Olympus");
      expect(await begin(minute(0))).toMatchObject({ taken: 1, last: [{ id: job.id, timezone: "Mars/Olympus" }] });
      expect((await jobOf(job.project_id)).next_fire_at).toBeNull();
    });
  });

  describe("what somebody asks for", () => {
    const refusal = async (asked: Promise<unknown>): Promise<string> => {
      const error = await asked.catch((each: unknown) => each);
      if (!(error instanceof Refused)) throw new Error("it was not refused", { cause: error });
      return error.code;
    };

    test("a run by hand is refused where nothing runs", async () => {
      const { projectId, job } = await served();
      expect(await refusal(stage.request(projectId, randomUUID()))).toBe("NOT_FOUND");
      const next = await stage.newDeployment(projectId, []);
      await stage.point(projectId, { deploymentId: next, stopped: false });
      expect(await refusal(stage.request(projectId, job.id))).toBe("SCOPE_UNAVAILABLE");
      const stopped = await served();
      await stage.point(stopped.projectId, { deploymentId: stopped.deploymentId, stopped: true });
      expect(await refusal(stage.request(stopped.projectId, stopped.job.id))).toBe("SCOPE_UNAVAILABLE");
      const suspended = await served();
      await stage.suspend(suspended.projectId);
      expect(await refusal(stage.request(suspended.projectId, suspended.job.id))).toBe("SUSPENDED");
    });

    test("an end comes at once to what waits, is asked of what runs, and changes nothing of what is over", async () => {
      const waits = await begun();
      expect(await stage.cancel(waits.projectId, waits.run.id)).toBe("end");
      expect(await stage.cancel(waits.projectId, waits.run.id)).toBeNull();
      expect(over).toContain((await runOf(waits.job)).status);
      const runs = await running();
      expect(await stage.cancel(runs.projectId, runs.run.id)).toBe("ask");
      expect(await stage.cancel(runs.projectId, runs.run.id)).toBeNull();
      expect(await runOf(runs.job)).toMatchObject({ status: "cancel_requested", reason: null });
      expect(await refusal(stage.cancel(waits.projectId, runs.run.id))).toBe("NOT_FOUND");
    });

    test("a job that is switched off is not due, also after another deployment, until it is switched on", async () => {
      const { projectId, job } = await served();
      expect(job.next_fire_at).not.toBeNull();
      expect(await stage.schedule(projectId, job.id, false)).toBe(true);
      expect(await jobOf(projectId)).toMatchObject({ user_enabled: false, next_fire_at: null });
      const next = await stage.newDeployment(projectId, [definition("report")]);
      await stage.point(projectId, { deploymentId: next, stopped: false });
      expect(await jobOf(projectId)).toMatchObject({ id: job.id, user_enabled: false, next_fire_at: null });
      await stage.schedule(projectId, job.id, true);
      expect((await jobOf(projectId)).next_fire_at).not.toBeNull();
      expect(await stage.schedule(projectId, randomUUID(), true)).toBe(false);
    });
  });

  describe("what is served", () => {
    test("has its jobs, and those that it has not are retired with their history", async () => {
      const { projectId, job } = await begun();
      const next = await stage.newDeployment(projectId, [definition("other"), definition("off", { enabled: false })]);
      await stage.point(projectId, { deploymentId: next, stopped: false });
      expect(await stage.jobsOf(projectId)).toMatchObject([
        { name: "off", deployment_id: next, source_enabled: false, next_fire_at: null, retired_at: null },
        { name: "other", deployment_id: next, retired_at: null, next_fire_at: expect.any(Date) },
        { id: job.id, name: "report", retired_at: expect.any(Date), next_fire_at: null },
      ]);
      expect(await openOf((await runOf(job)).id)).toMatchObject({ job: { isRetired: true } });
      const back = await stage.newDeployment(projectId, [definition("report", { retries: 5 })]);
      await stage.point(projectId, { deploymentId: back, stopped: false });
      expect(await jobOf(projectId)).toMatchObject({ id: job.id, retired_at: null, retries: 5, deployment_id: back });
    });

    test("keeps the next instant of a job whose schedule stays", async () => {
      const { projectId, job } = await served();
      await stage.dueAt(job.id, minute(7));
      const same = await stage.newDeployment(projectId, [definition("report", { overlap: "queue" })]);
      await stage.point(projectId, { deploymentId: same, stopped: false });
      expect(await jobOf(projectId)).toMatchObject({ next_fire_at: minute(7), overlap: "queue" });
      const other = await stage.newDeployment(projectId, [definition("report", { schedule: "0 3 * * *" })]);
      await stage.point(projectId, { deploymentId: other, stopped: false });
      expect((await jobOf(projectId)).next_fire_at?.getTime()).toBeGreaterThan(minute(7).getTime());
    });
  });

  describe("pauses", () => {
    const pausesOf = async (projectId: string) =>
      (await stage.rows.pauses.list()).find((each) => each.projectId === projectId);

    test("are counted by project, and brought to where they should be", async () => {
      const { projectId } = await served();
      expect(await pausesOf(projectId)).toMatchObject({
        ...{ jobs: 1, ofProduction: 1, suspended: 0, stopped: 0, plan: 0, isSuspended: false, isStopped: false },
      });
      await stage.suspend(projectId);
      expect(await pausesOf(projectId)).toMatchObject({ suspended: 0, isSuspended: true });
      expect(await stage.rows.pauses.settle(projectId)).toBe(1);
      expect(await stage.rows.pauses.settle(projectId)).toBe(0);
      expect(await jobOf(projectId)).toMatchObject({ pause_reason: "suspended", next_fire_at: null });
      expect(await pausesOf(projectId)).toMatchObject({ suspended: 1 });
    });

    test("follow a stop, and end with it", async () => {
      const { projectId, deploymentId } = await served();
      await stage.point(projectId, { deploymentId, stopped: true });
      expect(await jobOf(projectId)).toMatchObject({ pause_reason: "stopped", next_fire_at: null });
      await stage.point(projectId, { deploymentId, stopped: false });
      expect(await jobOf(projectId)).toMatchObject({ pause_reason: null, next_fire_at: expect.any(Date) });
    });

    test("are of what the plan has no room for", async () => {
      const projectId = await stage.newProject(1);
      const deploymentId = await stage.newDeployment(projectId, [definition("a"), definition("b")]);
      await stage.point(projectId, { deploymentId, stopped: false });
      expect(await stage.jobsOf(projectId)).toMatchObject([{ pause_reason: null }, { pause_reason: "plan" }]);
      expect(await pausesOf(projectId)).toMatchObject({ jobs: 2, plan: 1, maxScheduledJobs: 1 });
    });

    test("are none of projects without jobs", async () => {
      const projectId = await stage.newProject();
      expect(await pausesOf(projectId)).toBeUndefined();
      expect(await stage.rows.pauses.settle(projectId)).toBe(0);
    });
  });
});
