import { describe, expect, test } from "vitest";
import { deploymentId, hangUp, ok, projectId, type Routes, refusal, type Seen, startApi } from "../testing/api.ts";
import { aJob, aJobRun, anAttempt, jobId, jobLimits, runId } from "../testing/jobs.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const base = `/api/v1/projects/${projectId}`;
const runPath = `${base}/job-runs/${runId}`;
const at = "2030-01-01T00:00:00.000Z";

const jobsOf = (...jobs: object[]) => ok({ jobs, limits: jobLimits });
const logOf = (attempt: number, log: string, more: object = {}) =>
  ok({ attempt, log, omittedBytes: 0, live: false, ...more });

async function run(args: string[], answers: Routes, more: Partial<SvcOptions> = {}) {
  await using api = await startApi(answers);
  await using directory = await aDirectory({ ".svc/state.json": state });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...more.env };
  const ended = await svc(["jobs", ...args], { cwd: directory.path, ...more, env });
  return { ...ended, seen: api.seen, calls: api.seen.map(({ method, path }) => `${method} ${path}`) };
}
const bodyOf = (seen: readonly Seen[], method: string) =>
  JSON.parse(String(seen.find((each) => each.method === method)?.body));
/** The attempt that a call asked for, as the server finds it. */
const attemptOf = ({ path }: Seen): number => Number(new URLSearchParams(path.split("?")[1]).get("attempt"));

describe("svc jobs ls", () => {
  test("shows when each runs next, how it went, and why one does not run", async () => {
    const failed = aJobRun({ status: "failed", message: "Exit code 2.", finishedAt: at, attemptCount: 1 });
    const ended = await run(["ls"], {
      [`GET ${base}/jobs`]: jobsOf(
        aJob({ lastRun: failed }),
        aJob({ name: "hourly", enabled: false, userEnabled: false, nextFireAt: null }),
        aJob({ name: "weekly", pauseReason: "stopped", nextFireAt: null }),
      ),
    });
    expect(ended).toMatchObject({ status: 0, calls: [`GET ${base}/jobs`] });
    expect(ended.stdout).toMatch(
      /JOB +SCHEDULE +NEXT +LAST RUN\nnightly +0 3 \* \* \* +2099-01-01 03:00, in \d+ d.* failed/,
    );
    expect(ended.stdout).toContain(`Exit code 2; it never succeeded. Read it with \`svc jobs logs ${runId}\``);
    expect(ended.stdout).toMatch(
      /hourly .*disabled[\s\S]*svc jobs enable hourly[\s\S]*weekly .*paused \(stopped\)[\s\S]*svc start/,
    );
    expect(ended.stdout).toContain("1 of 5 scheduled jobs");
  });

  test("asks for the scope that is meant, and says what came as JSON", async () => {
    const answers = { [`GET ${base}/jobs`]: jobsOf(aJob({ channel: "dev" })) };
    const ended = await run(["ls", "--channel", "dev", "--deployment", deploymentId, "--json"], answers);
    expect(ended.calls).toEqual([`GET ${base}/jobs?channel=dev&deployment=${deploymentId}`]);
    expect(envelopeOf(ended)).toMatchObject({
      operation: "jobs.ls",
      project: { id: projectId, slug: "shop" },
      channel: "dev",
      jobs: [{ id: jobId, name: "nightly" }],
      limits: jobLimits,
    });
  });

  test.each([
    { limits: jobLimits, says: "Write some into the manifest" },
    { limits: { ...jobLimits, maxScheduledJobs: 0 }, says: "plan does not include" },
  ])("without any: $says", async ({ limits, says }) => {
    const ended = await run(["ls"], { [`GET ${base}/jobs`]: ok({ jobs: [], limits }) });
    expect(ended.stdout).toContain(says);
  });
});

describe("svc jobs run, enable and disable", () => {
  test("run finds the job by its name, and sends one request under a key of its own", async () => {
    const ended = await run(["run", "nightly", "--json"], {
      [`GET ${base}/jobs`]: jobsOf(aJob({ enabled: false, userEnabled: false })),
      [`POST ${base}/jobs/${jobId}/run`]: ok({ run: aJobRun() }, 202),
    });
    expect(envelopeOf(ended)).toMatchObject({
      operation: "jobs.run",
      project: { id: projectId },
      run: {
        id: runId,
        jobName: "nightly",
        channel: "production",
        trigger: "manual",
        status: "queued",
        attemptCount: 0,
      },
    });
    expect(ended.seen.at(-1)?.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("an id is used as it is", async () => {
    const ended = await run(["run", jobId.toUpperCase()], {
      [`POST ${base}/jobs/${jobId}/run`]: ok({ run: aJobRun() }, 202),
    });
    expect(ended.calls).toEqual([`POST ${base}/jobs/${jobId}/run`]);
    expect(ended.stdout).toContain(
      `nightly on production is queued\n  Follow it with \`svc jobs logs ${runId} --follow\``,
    );
  });

  test("a name that is none is answered with those that there are", async () => {
    const ended = await run(["run", "nihgtly"], { [`GET ${base}/jobs`]: jobsOf(aJob()) });
    expect(ended).toMatchObject({ status: 1, calls: [`GET ${base}/jobs`] });
    expect(ended.stderr).toMatch(/no job "nihgtly" on production[\s\S]*nightly/);
  });

  test.each([
    { args: ["enable", "nightly"], enabled: true, job: aJob({ userEnabled: true }), says: /is scheduled, next 2099/ },
    {
      args: ["enable", "nightly"],
      enabled: true,
      job: aJob({ enabled: false, sourceEnabled: false, userEnabled: true, nextFireAt: null }),
      says: /not scheduled yet[\s\S]*manifest says/,
    },
    { args: ["disable", "nightly"], enabled: false, job: aJob({ enabled: false }), says: /not scheduled any more/ },
  ])("$args: $says", async ({ args, enabled, job, says }) => {
    const ended = await run(args, {
      [`GET ${base}/jobs`]: jobsOf(aJob()),
      [`PATCH ${base}/jobs/${jobId}`]: ok({ job }),
    });
    expect([ended.status, bodyOf(ended.seen, "PATCH")]).toEqual([0, { enabled }]);
    expect(ended.stdout).toMatch(says);
  });

  test.each([
    { answer: refusal(403, "SUSPENDED"), code: "CLOUD_REQUEST_FAILED", status: 1 },
    { answer: refusal(403, "PLAN_FEATURE_UNAVAILABLE"), code: "CLOUD_UNAUTHORIZED", status: 1 },
    { answer: refusal(403, "FORBIDDEN_SCOPE"), code: "CLOUD_FORBIDDEN_SCOPE", status: 1 },
    { answer: refusal(409, "SCOPE_UNAVAILABLE"), code: "CLOUD_REQUEST_FAILED", status: 1 },
    { answer: refusal(409, "ARTIFACT_UNAVAILABLE"), code: "CLOUD_REQUEST_FAILED", status: 1 },
  ])("a refused run is $code", async ({ answer, code, status }) => {
    const ended = await run(["run", jobId, "--json"], { [`POST ${base}/jobs/${jobId}/run`]: answer });
    expect([ended.status, envelopeOf(ended)["error"]]).toMatchObject([status, { code, hint: expect.any(String) }]);
  });
});

describe("svc jobs runs and cancel", () => {
  test("runs asks for what the flags name, and says where older ones are", async () => {
    const answers = {
      [`GET ${base}/job-runs`]: ok({
        runs: [aJobRun({ status: "skipped", reason: "overlap", message: "The run before it was not over." })],
        nextCursor: "next",
      }),
    };
    const args = ["runs", "nightly", "--status", "skipped", "--limit", "5", "--cursor", "abc", "--channel", "preview"];
    const ended = await run(args, answers);
    expect(ended.calls).toEqual([
      `GET ${base}/job-runs?channel=preview&status=skipped&limit=5&cursor=abc&name=nightly`,
    ]);
    expect(ended.stdout).toMatch(/RUN +JOB[\s\S]*skipped[\s\S]*The run before it was not over[\s\S]*--cursor next/);
    const plain = await run(["runs", "--json"], answers);
    expect(plain.calls).toEqual([`GET ${base}/job-runs`]);
    expect(envelopeOf(plain)).toMatchObject({ operation: "jobs.runs", runs: [{ id: runId }], nextCursor: "next" });
  });

  test.each([
    ["runs", "--limit", "0"],
    ["runs", "--limit", "101"],
    ["runs", "--status", "done"],
    ["logs", runId, "--attempt", "0"],
    ["logs", runId, "--since", "yesterday"],
    ["logs", runId, "--grep", "("],
    ["logs", "nightly"],
    ["cancel", "nightly"],
    ["ls", "--deployment", "latest"],
  ])("%s %s %s is refused before anybody is asked", async (...args) => {
    const ended = await run([...args, "--json"], {});
    expect([ended.status, envelopeOf(ended)["error"], ended.calls]).toMatchObject([
      2,
      { code: "CLI_INVALID_USAGE" },
      [],
    ]);
  });

  test.each([
    { status: "canceled", says: "is canceled" },
    { status: "cancel_requested", says: "was asked to end" },
    { status: "succeeded", says: "was over already" },
  ])("cancel of a run that is $status then", async ({ status, says }) => {
    const ended = await run(["cancel", runId], { [`POST ${runPath}/cancel`]: ok({ run: aJobRun({ status }) }) });
    expect([ended.status, ended.stdout]).toEqual([0, expect.stringContaining(says)]);
  });
});

describe("svc jobs logs", () => {
  test("prints the newest attempt, then how it ended", async () => {
    const ended = await run(["logs", runId], {
      [`GET ${runPath}`]: ok({
        run: aJobRun({ status: "failed", attemptCount: 2, exitCode: 1, message: "Exit code 1." }),
        attempts: [anAttempt(1, { status: "failed" }), anAttempt(2, { status: "failed" })],
      }),
      [`GET ${runPath}/logs`]: (seen) =>
        logOf(attemptOf(seen), `from ${attemptOf(seen)}\nno line feed`, { omittedBytes: 2048 }),
    });
    expect(ended).toMatchObject({ status: 0, stdout: "from 2\nno line feed\n" });
    expect(ended.stderr).toMatch(
      /2\.0 KiB of its output were left out[\s\S]*The run failed, after 2 attempts: Exit code 1/,
    );
  });

  test("--attempt, --grep and --json", async () => {
    const ended = await run(["logs", runId, "--attempt", "1", "--grep", "b", "--json"], {
      [`GET ${runPath}`]: ok({ run: aJobRun({ status: "running" }), attempts: [anAttempt(1), anAttempt(2)] }),
      [`GET ${runPath}/logs`]: (seen) => logOf(attemptOf(seen), "a\nb\n"),
    });
    expect(envelopeOf(ended)).toMatchObject({ operation: "jobs.logs", run: { id: runId }, attempt: 1, log: "b\n" });
    const none = await run(["logs", runId, "--attempt", "9", "--json"], {
      [`GET ${runPath}`]: ok({ run: aJobRun(), attempts: [] }),
      [`GET ${runPath}/logs`]: refusal(400, "INVALID_INPUT", "There is no such attempt"),
    });
    expect(envelopeOf(none)).toMatchObject({ error: { code: "CLOUD_REQUEST_FAILED", message: /INVALID_INPUT/ } });
  });

  test("a run that has not begun says what it waits for, and has no output", async () => {
    const ended = await run(["logs", runId], {
      [`GET ${runPath}`]: ok({ run: aJobRun({ status: "waiting", message: "No node has room." }), attempts: [] }),
    });
    expect([ended.status, ended.stdout]).toEqual([0, ""]);
    expect(ended.stderr).toContain("The run waits: No node has room");
  });

  test("--follow shows each line once, goes on with the next attempt, and ends when the run is over", async () => {
    let looks = 0;
    const begun = anAttempt(1);
    const failed = anAttempt(1, { status: "failed", exitCode: 1, finishedAt: at });
    const states = [
      { run: aJobRun(), attempts: [] },
      { run: aJobRun({ status: "running", attemptCount: 1 }), attempts: [begun] },
      { run: aJobRun({ status: "running", attemptCount: 1 }), attempts: [begun] },
      { run: aJobRun({ status: "waiting", attemptCount: 1 }), attempts: [failed] },
      { run: aJobRun({ status: "running", attemptCount: 2 }), attempts: [failed, anAttempt(2)] },
      {
        run: aJobRun({ status: "succeeded", attemptCount: 2, finishedAt: at }),
        attempts: [failed, anAttempt(2, { status: "succeeded", finishedAt: at })],
      },
    ];
    const state = () => Math.min(looks, states.length) - 1;
    const first = ["", "one\ntw", "one\ntwo\n", "one\ntwo\nthree", "one\ntwo\nthree", "one\ntwo\nthree"];
    const ended = await run(["logs", runId, "--follow"], {
      [`GET ${runPath}`]: () => {
        looks++;
        return ok(states[Math.min(looks - 2, states.length - 1)] ?? states[0] ?? {});
      },
      [`GET ${runPath}/logs`]: (seen) =>
        attemptOf(seen) === 1
          ? logOf(1, first[state() - 1] ?? "one\ntwo\nthree", { live: state() < 4 })
          : logOf(2, state() < 5 ? "again\n" : "again\ndone\n", { live: state() < 6 && looks < 9 }),
    });
    expect([ended.status, ended.stdout]).toEqual([0, "one\ntwo\nthree\nagain\ndone\n"]);
    expect(ended.stderr).toMatch(
      /Attempt 1 failed: exit code 1[\s\S]*Attempt 2[\s\S]*The run succeeded, after 2 attempts/,
    );
  });

  test("--follow of an output that is cut in the middle goes on behind the cut", async () => {
    const running = { run: aJobRun({ status: "running" }), attempts: [anAttempt(1)] };
    const over = {
      run: aJobRun({ status: "succeeded" }),
      attempts: [anAttempt(1, { status: "succeeded", finishedAt: at })],
    };
    const ended = await run(["logs", runId, "-f"], {
      [`GET ${runPath}`]: [ok(running), ok(running), ok(over)],
      [`GET ${runPath}/logs`]: [
        logOf(1, "first\nsecond\ncut of", { live: true }),
        logOf(1, "first\nsecond\n[…]\nlast\n", { omittedBytes: 4096 }),
      ],
    });
    expect(ended.stdout).toBe("first\nsecond\n[…]\nlast\n");
    expect(ended.stderr).toContain("4.0 KiB of its output were left out in the middle");
  });

  test.each([
    { away: "does not answer", answer: hangUp },
    { away: "is being restarted", answer: refusal(503, "UNAVAILABLE") },
  ])("--follow waits for a platform that $away when it is asked first", async ({ answer }) => {
    const ended = await run(["logs", runId, "--follow"], {
      [`GET ${runPath}`]: [
        answer,
        ok({
          run: aJobRun({ status: "succeeded", attemptCount: 1, finishedAt: at }),
          attempts: [anAttempt(1, { status: "succeeded", finishedAt: at })],
        }),
      ],
      [`GET ${runPath}/logs`]: logOf(1, "done\n"),
    });
    expect([ended.status, ended.stdout]).toEqual([0, "done\n"]);
    expect(ended.stderr).toContain("asking again");
  });

  test("without --follow a platform that does not answer is said at once", async () => {
    const ended = await run(["logs", runId], { [`GET ${runPath}`]: hangUp });
    expect([ended.status, ended.calls.length]).toEqual([1, 1]);
  });

  test("--follow and --json exclude each other; a run that is not there is not found", async () => {
    const both = await run(["logs", runId, "--follow", "--json"], {});
    expect([both.calls, envelopeOf(both)["error"]]).toMatchObject([[], { code: "CLI_INVALID_USAGE" }]);
    const none = await run(["logs", runId, "--follow"], {});
    expect([none.status, none.stderr]).toEqual([1, expect.stringContaining("CLOUD_NOT_FOUND")]);
  });
});
