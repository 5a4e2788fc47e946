import { jobReply, jobsReply } from "@svc/proto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { setChannelState } from "../../../fleet/routes/store.ts";
import { type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Job, Project } from "../../../stores/db/tables.ts";
import { newJob } from "../testing/job.ts";

let api: TestApi;
let user: TestUser;
let project: Project;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  user = await api.newUser({ plan: { max_scheduled_jobs: 3 } });
  project = await api.newProject(user);
});

const get = (query = "", options: CallOptions = {}) =>
  api.call("GET", `/projects/${project.id}/jobs${query}`, { session: user.session, ...options });
const patch = (id: string, body: unknown, options: CallOptions = {}) =>
  api.call("PATCH", `/projects/${project.id}/jobs/${id}`, { session: user.session, body, ...options });
const namesOf = async (query: string) => jobsReply.parse((await get(query)).body).jobs.map(({ name }) => name);
const codeOf = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [status, body.error?.code];
const aJob = (name: string, values: Partial<Job> = {}) => newJob(api.db, { project_id: project.id, name, ...values });

describe("the list", () => {
  test("is of production unless it is told otherwise, and by name; jobs that are gone are left out", async () => {
    await aJob("b");
    await aJob("a");
    await aJob("gone", { retired_at: new Date() });
    await aJob("dev", { channel: "dev" });
    await aJob("preview", { channel: "preview" });
    await aJob("pr", { channel: "preview", pr_number: 7 });
    expect(await namesOf("")).toEqual(["a", "b"]);
    expect(await namesOf("?channel=production")).toEqual(["a", "b"]);
    expect(await namesOf("?channel=dev")).toEqual(["dev"]);
    // The stable one; a pull request's takes the deployment that it serves.
    expect(await namesOf("?channel=preview")).toEqual(["preview"]);
  });

  test("names what a job is and how it went last, and the limits", async () => {
    const job = await aJob("nightly", { timezone: "Europe/Berlin", retries: 2, overlap: "queue" });
    const of = { job_id: job.id, project_id: project.id, deployment_id: job.deployment_id } as const;
    await api.db
      .insertInto("job_run")
      .values({ ...of, trigger: "schedule", fire_at: new Date(0), status: "failed" })
      .execute();
    const last = await api.db
      .insertInto("job_run")
      .values({ ...of, trigger: "manual", status: "succeeded", attempt_count: 2 })
      .returning("id")
      .executeTakeFirstOrThrow();
    const { body } = await get();
    expect(jobsReply.parse(body)).toMatchObject({
      jobs: [
        {
          ...{ id: job.id, name: "nightly", channel: "production", prNumber: null, deploymentId: job.deployment_id },
          ...{ schedule: "0 3 * * *", timezone: "Europe/Berlin", timeoutSeconds: 900, retries: 2, overlap: "queue" },
          ...{ enabled: true, sourceEnabled: true, userEnabled: null, pauseReason: null, nextFireAt: null },
          lastRun: { id: last.id, jobName: "nightly", trigger: "manual", status: "succeeded", attemptCount: 2 },
        },
      ],
      limits: { maxScheduledJobs: 3, scheduledJobs: 1, timeoutSecondsMax: 21_600, retriesMax: 10, runsKeptDays: 90 },
    });
  });

  test("of a deployment is that of what it is served as", async () => {
    const place = { channel: "preview", pr_number: 7 } as const;
    const served = await api.newDeployment(project, { ...place, status: "running" });
    const other = await api.newDeployment(project, { ...place, status: "superseded" });
    await setChannelState(api.db, served, { deploymentId: served.id, stopped: false });
    await aJob("pr", place);
    expect(await namesOf(`?deployment=${served.id}`)).toEqual(["pr"]);
    expect(await namesOf(`?channel=preview&deployment=${served.id}`)).toEqual(["pr"]);
    expect(codeOf(await get(`?deployment=${other.id}`))).toEqual([409, "SCOPE_UNAVAILABLE"]);
    expect(codeOf(await get(`?channel=dev&deployment=${served.id}`))).toEqual([400, "INVALID_INPUT"]);
    const stranger = await api.newDeployment(await api.newProject(await api.newUser()));
    expect(codeOf(await get(`?deployment=${stranger.id}`))).toEqual([404, "NOT_FOUND"]);
  });

  test.each(["?channel=beta", "?deployment=x", "?chanel=dev", "?channel=dev&channel=preview"])(
    "with %s is refused",
    async (query) => {
      expect(codeOf(await get(query))).toEqual([400, "INVALID_INPUT"]);
    },
  );

  test("tells nobody else anything, and keys only with their scope", async () => {
    const { key } = await api.newKey(user, { scopes: ["jobs:read"] });
    const { key: other } = await api.newKey(user, { scopes: ["projects:read"] });
    const call = (options: CallOptions) => api.call("GET", `/projects/${project.id}/jobs`, options);
    expect((await call({ key })).status).toBe(200);
    expect(codeOf(await call({ key: other }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    expect(codeOf(await call({ session: (await api.newUser()).session }))).toEqual([404, "NOT_FOUND"]);
  });
});

describe("switching", () => {
  test("off ends the schedule, on begins it from now", async () => {
    const job = await aJob("a", { next_fire_at: new Date("2020-01-01T00:00:00Z") });
    const off = jobReply.parse((await patch(job.id, { enabled: false })).body).job;
    expect(off).toMatchObject({ enabled: false, sourceEnabled: true, userEnabled: false, nextFireAt: null });
    const on = jobReply.parse((await patch(job.id, { enabled: true })).body).job;
    expect(on).toMatchObject({ enabled: true, userEnabled: true, pauseReason: null });
    expect(new Date(on.nextFireAt ?? 0).getTime()).toBeGreaterThan(Date.now() - 60_000);
  });

  test("on beats neither the manifest nor a pause, and is remembered", async () => {
    const byManifest = await aJob("a", { source_enabled: false });
    expect(jobReply.parse((await patch(byManifest.id, { enabled: true })).body).job).toMatchObject({
      ...{ enabled: false, sourceEnabled: false, userEnabled: true, nextFireAt: null },
    });
    await api.db.updateTable("project").set({ suspended_at: new Date() }).where("id", "=", project.id).execute();
    const paused = await aJob("b");
    expect(jobReply.parse((await patch(paused.id, { enabled: true })).body).job).toMatchObject({
      ...{ enabled: true, userEnabled: true, pauseReason: "suspended", nextFireAt: null },
    });
  });

  test.each([undefined, {}, { enabled: "yes" }, { enabled: null }, { enabled: true, name: "x" }, []])(
    "with the body %j is refused",
    async (body) => {
      const job = await aJob("a");
      expect(codeOf(await patch(job.id, body))).toEqual([400, "INVALID_INPUT"]);
    },
  );

  test("takes a job of the project that is not gone, and the scope", async () => {
    const gone = await aJob("gone", { retired_at: new Date() });
    expect(codeOf(await patch(gone.id, { enabled: true }))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await patch("x", { enabled: true }))).toEqual([404, "NOT_FOUND"]);
    const stranger = await newJob(api.db, { project_id: (await api.newProject(user)).id });
    expect(codeOf(await patch(stranger.id, { enabled: true }))).toEqual([404, "NOT_FOUND"]);
    const { key } = await api.newKey(user, { scopes: ["jobs:read"] });
    const job = await aJob("a");
    const path = `/projects/${project.id}/jobs/${job.id}`;
    expect(codeOf(await api.call("PATCH", path, { key, body: { enabled: false } }))).toEqual([403, "FORBIDDEN_SCOPE"]);
  });
});
