import { randomUUID } from "node:crypto";
import { type Channel, manifestSchema } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Deployment, Job, Project } from "../../../stores/db/tables.ts";
import { pointChannel } from "../../deployments/channel.ts";
import { requestRemoval } from "../../deployments/remove/request.ts";
import { suspendProject } from "../../suspension/request.ts";
import { newJob } from "../testing/job.ts";
import { forgetJobs } from "./forget.ts";
import { jobPauseRows, settlePauses } from "./pauses.ts";

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
  user = await api.newUser({ plan: { max_scheduled_jobs: 10 } });
  project = await api.newProject(user);
});

const log = createLog("silent");
const job = (name: string, values: object = {}) => ({ name, schedule: "0 3 * * *", command: "node job.js", ...values });
type Place = Partial<Pick<Deployment, "channel" | "pr_number">>;
const aDeployment = (jobs: object[], place: Place = {}) =>
  api.newDeployment(project, {
    ...{ status: "running", ...place },
    manifest: manifestSchema.parse({ version: 2, app: { name: "Shop", type: "ssr" }, jobs }) as never,
  });
const point = (deployment: Deployment, { stopped = false } = {}) =>
  api.db.transaction().execute((tx) => pointChannel(tx, deployment, { deploymentId: deployment.id, stopped }));
const pointAway = (deployment: Deployment) =>
  api.db.transaction().execute((tx) => pointChannel(tx, deployment, { deploymentId: null, stopped: false }));
async function serve(jobs: object[], place: Place = {}): Promise<Deployment> {
  const deployment = await aDeployment(jobs, place);
  await point(deployment);
  return deployment;
}
/** By name; those of other channels and projects are left out. */
async function jobsNow(channel: Channel = "production"): Promise<Record<string, Job>> {
  const rows = await api.db
    .selectFrom("job")
    .selectAll()
    .where("project_id", "=", project.id)
    .where("channel", "=", channel)
    .orderBy("name")
    .execute();
  return Object.fromEntries(rows.map((row) => [row.name, row]));
}
const pausesNow = async (channel?: Channel) =>
  Object.fromEntries(Object.entries(await jobsNow(channel)).map(([name, { pause_reason }]) => [name, pause_reason]));
const isFuture = (at: Date | null | undefined) => at != null && at.getTime() > Date.now() - 60_000;

describe("deployments", () => {
  test("bring jobs, change them, and take them away; each keeps its id and what its owner said", async () => {
    const first = await serve([job("a"), job("b"), job("c", { enabled: false })]);
    const before = await jobsNow();
    expect(Object.keys(before)).toEqual(["a", "b", "c"]);
    expect(before["a"]).toMatchObject({ deployment_id: first.id, source_enabled: true, user_enabled: null });
    expect(isFuture(before["a"]?.next_fire_at)).toBe(true);
    expect(before["c"]).toMatchObject({ source_enabled: false, next_fire_at: null });
    await api.db.updateTable("job").set({ user_enabled: false, next_fire_at: null }).where("name", "=", "a").execute();

    const second = await serve([job("a", { retries: 3 }), job("c"), job("d", { schedule: "*/5 * * * *" })]);
    const after = await jobsNow();
    expect(after["a"]).toMatchObject({
      id: before["a"]?.id,
      deployment_id: second.id,
      retries: 3,
      user_enabled: false,
    });
    expect(after["a"]?.next_fire_at).toBeNull();
    expect(after["b"]).toMatchObject({ id: before["b"]?.id, next_fire_at: null, deployment_id: first.id });
    expect(after["b"]?.retired_at).not.toBeNull();
    expect(after["c"]).toMatchObject({ id: before["c"]?.id, source_enabled: true });
    expect(isFuture(after["c"]?.next_fire_at)).toBe(true);
    expect(isFuture(after["d"]?.next_fire_at)).toBe(true);

    // A rollback is a deployment with what the manifest said then.
    await serve([job("a"), job("b"), job("c", { enabled: false })]);
    const back = await jobsNow();
    expect(back["b"]).toMatchObject({ id: before["b"]?.id, retired_at: null });
    expect(isFuture(back["b"]?.next_fire_at)).toBe(true);
    expect(back["a"]).toMatchObject({ user_enabled: false });
    expect(back["d"]?.retired_at).not.toBeNull();
  });

  test("that a channel had once, of other names, are not looked at: there may be very many", async () => {
    await serve([job("old"), job("kept")]);
    await serve([job("kept")]);
    await api.db.transaction().execute(async (tx) => {
      await tx.selectFrom("job").select("id").where("name", "=", "old").forUpdate().execute();
      // With all of them read and locked, this would wait for the transaction that it is in.
      await serve([job("kept"), job("new")]);
    });
    expect((await jobsNow())["new"]?.retired_at).toBeNull();
  });

  test("do not lose an instant that is due, unless the schedule is another one", async () => {
    const due = new Date(Date.now() - 1_000);
    await serve([job("a"), job("b")]);
    await api.db.updateTable("job").set({ next_fire_at: due }).where("project_id", "=", project.id).execute();
    await serve([job("a"), job("b", { schedule: "0 4 * * *" })]);
    const { a, b } = await jobsNow();
    expect(a?.next_fire_at).toEqual(due);
    expect(isFuture(b?.next_fire_at) && b?.next_fire_at?.getUTCHours()).toBe(4);
  });

  test("of one channel leave others alone, and a preview of a pull request has jobs of its own", async () => {
    await serve([job("a")]);
    await serve([job("a"), job("x")], { channel: "preview" });
    await serve([job("a")], { channel: "preview", pr_number: 7 });
    const rows = await api.db
      .selectFrom("job")
      .select(["name", "channel", "pr_number"])
      .where("project_id", "=", project.id)
      .orderBy("pr_number")
      .orderBy("channel")
      .orderBy("name")
      .execute();
    expect(rows.map((row) => `${row.channel} ${row.pr_number} ${row.name}`)).toEqual([
      "preview 0 a",
      "preview 0 x",
      "production 0 a",
      "preview 7 a",
    ]);
  });

  test("that are not there any more take their jobs along", async () => {
    const deployment = await serve([job("a")], { channel: "preview", pr_number: 7 });
    const row = await api.db
      .selectFrom("deployment")
      .selectAll()
      .where("id", "=", deployment.id)
      .executeTakeFirstOrThrow();
    await api.db.transaction().execute((tx) => requestRemoval(tx, row, "by its owner"));
    const { a } = await jobsNow("preview");
    expect(a?.retired_at).not.toBeNull();
    expect(a?.next_fire_at).toBeNull();
    await pointAway(deployment);
    expect((await jobsNow("preview"))["a"]?.retired_at).toEqual(a?.retired_at);
  });

  test("that switch a channel twice at once leave the jobs of what is served", async () => {
    const [one, two] = [await aDeployment([job("a"), job("b")]), await aDeployment([job("b"), job("c")])];
    await point(one);
    await Promise.all([point(two), point(one), point(two), point(one)]);
    const state = await api.db
      .selectFrom("channel_state")
      .select("deployment_id")
      .where("project_id", "=", project.id)
      .executeTakeFirstOrThrow();
    const live = Object.values(await jobsNow()).filter(({ retired_at }) => retired_at === null);
    expect(live.map(({ name }) => name)).toEqual(state.deployment_id === one.id ? ["a", "b"] : ["b", "c"]);
    expect(new Set(live.map(({ deployment_id }) => deployment_id))).toEqual(new Set([state.deployment_id]));
  });

  test("that fail to point the channel change no job", async () => {
    await serve([job("a")]);
    const next = await aDeployment([job("b")]);
    const broken = api.db.transaction().execute(async (tx) => {
      await pointChannel(tx, next, { deploymentId: next.id, stopped: false });
      throw new Error("killed here");
    });
    await expect(broken).rejects.toThrow("killed here");
    expect(Object.keys(await jobsNow())).toEqual(["a"]);
  });
});

describe("pauses", () => {
  test("production that is stopped pauses its own jobs, and a start counts from then", async () => {
    const production = await serve([job("a")]);
    await serve([job("x")], { channel: "dev" });
    await point(production, { stopped: true });
    expect(await jobsNow()).toMatchObject({ a: { pause_reason: "stopped", next_fire_at: null } });
    expect(await pausesNow("dev")).toEqual({ x: null });
    // What is deployed while it is stopped waits for the start, too.
    const next = await aDeployment([job("a"), job("b")]);
    await point(next, { stopped: true });
    expect(await pausesNow()).toEqual({ a: "stopped", b: "stopped" });
    await point(next);
    const { a, b } = await jobsNow();
    expect([a?.pause_reason, b?.pause_reason]).toEqual([null, null]);
    expect(isFuture(a?.next_fire_at) && isFuture(b?.next_fire_at)).toBe(true);
  });

  test("a project that is suspended has none scheduled, and its resumption ends that", async () => {
    await serve([job("a")]);
    await serve([job("x")], { channel: "dev" });
    await api.db.transaction().execute(async (tx) => {
      const row = await tx
        .selectFrom("project")
        .selectAll()
        .where("id", "=", project.id)
        .forUpdate()
        .executeTakeFirstOrThrow();
      await suspendProject(tx, row, "admin");
    });
    expect(await jobsNow()).toMatchObject({ a: { pause_reason: "suspended", next_fire_at: null } });
    expect(await pausesNow("dev")).toEqual({ x: "suspended" });
  });

  test("a plan with fewer jobs pauses the last ones, and a larger one ends that", async () => {
    await serve([job("a"), job("b"), job("c")]);
    await serve([job("x")], { channel: "dev" });
    const setMax = (max_scheduled_jobs: number) =>
      api.db
        .updateTable("plan")
        .set({ max_scheduled_jobs })
        .where("id", "=", sql<string>`(select plan_id from account where user_id = ${user.id})`)
        .execute();
    await setMax(2);
    await settlePauses({ rows: jobPauseRows(api.db), log });
    expect(await pausesNow()).toEqual({ a: null, b: null, c: "plan" });
    expect(await pausesNow("dev")).toEqual({ x: "plan" });
    await setMax(0);
    await settlePauses({ rows: jobPauseRows(api.db), log });
    expect(await pausesNow()).toEqual({ a: "plan", b: "plan", c: "plan" });
    await setMax(10);
    await settlePauses({ rows: jobPauseRows(api.db), log });
    expect(await pausesNow()).toEqual({ a: null, b: null, c: null });
    expect(isFuture((await jobsNow())["c"]?.next_fire_at)).toBe(true);
    expect(await settlePauses({ rows: jobPauseRows(api.db), log })).toBe(0);
  });
});

test("a project that is deleted has no job from that moment on, and none is left of it in the end", async () => {
  await serve([job("a")]);
  expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(200);
  const { a } = await jobsNow();
  expect(a?.retired_at).not.toBeNull();
  expect(a?.next_fire_at).toBeNull();
  await api.db.deleteFrom("channel_state").where("project_id", "=", project.id).execute();
  await api.db.deleteFrom("project").where("id", "=", project.id).execute();
  expect(await jobsNow()).toEqual({});
});

test("a job that nothing has any more is forgotten after 90 days, with its runs, once none is under way", async () => {
  const days = (count: number) => new Date(Date.now() - count * 86_400_000);
  const of = { project_id: project.id };
  const [old, recent, live] = [
    await newJob(api.db, { ...of, retired_at: days(91) }),
    await newJob(api.db, { ...of, retired_at: days(89) }),
    await newJob(api.db, of),
  ];
  const run = {
    job_id: old.id,
    ...of,
    deployment_id: old.deployment_id,
    trigger: "manual",
    status: "running",
  } as const;
  const { id } = await api.db.insertInto("job_run").values(run).returning("id").executeTakeFirstOrThrow();
  const attempt = { ...of, kind: "job", owner_kind: "job", owner_id: id, number: 1, node_id: randomUUID() } as const;
  await api.db.insertInto("run").values(attempt).execute();
  expect(await forgetJobs(api.db)).toBe(0);
  await api.db.updateTable("job_run").set({ status: "succeeded" }).where("id", "=", id).execute();
  expect(await forgetJobs(api.db)).toBe(1);
  expect(Object.keys(await jobsNow()).sort()).toEqual([recent.name, live.name].sort());
  expect(await api.db.selectFrom("run").select("id").where("owner_id", "=", id).execute()).toEqual([]);
});

test("switches, switching by hand and pauses of one project do not wait for one another for ever", async () => {
  const other = await newJob(api.db, { project_id: project.id, channel: "preview" });
  const [production, dev] = [
    await aDeployment([job("a"), job("b")]),
    await aDeployment([job("a"), job("b")], { channel: "dev" }),
  ];
  const patch = (enabled: boolean) =>
    api.call("PATCH", `/projects/${project.id}/jobs/${other.id}`, { session: user.session, body: { enabled } });
  for (let round = 0; round < 5; round += 1) {
    const stopped = round % 2 === 0;
    const [, , answer] = await Promise.all([point(production, { stopped }), point(dev), patch(stopped)]);
    expect(answer.status).toBe(200);
  }
  expect(await pausesNow()).toEqual({ a: "stopped", b: "stopped" });
});
