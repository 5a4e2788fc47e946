import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { newJob } from "../testing/job.ts";
import { newJobRun } from "../testing/run.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(() => api[Symbol.asyncDispose]());

const get = (path: string) => api.call("GET", path, { session: user.session });

test("runs are listed newest first, page by page, and a place in one list is none in another", async () => {
  const { id: project_id } = await api.newProject(user);
  const job = await newJob(api.db, { project_id, name: "report" });
  const ids: string[] = [];
  for (let at = 0; at < 3; at += 1) ids.unshift((await newJobRun(api.db, job, { status: "succeeded" })).id);
  const list = `/projects/${project_id}/job-runs`;
  const first = await get(`${list}?limit=2`);
  expect(first.body.runs.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
  const second = await get(`${list}?limit=2&cursor=${first.body.nextCursor}`);
  expect(second.body).toMatchObject({ runs: [{ id: ids[2], jobName: "report" }], nextCursor: null });
  const notCounts = ["limit=0", "limit=101", "limit=1e1", "limit=0x10", "limit=%202", "limit=2.0", "limit="];
  for (const query of [`cursor=${first.body.nextCursor}&status=failed`, "cursor=x", "status=gone", ...notCounts]) {
    expect(await get(`${list}?${query}`)).toMatchObject({ status: 400, body: { error: { code: "INVALID_INPUT" } } });
  }
  expect((await get(`${list}?name=other`)).body.runs).toEqual([]);
});

test("a run says how its attempts went, and what each wrote", async () => {
  const { id: project_id } = await api.newProject(user);
  const run = await newJobRun(api.db, await newJob(api.db, { project_id }), { status: "failed", attempt_count: 2 });
  const node = await api.db
    .insertInto("node")
    .values({ role: "node", name: "n" })
    .returning("id")
    .executeTakeFirstOrThrow();
  for (const [number, outcome] of (["failed", "not_started", "failed"] as const).entries()) {
    const of = { project_id, owner_kind: "job", owner_id: run.id, kind: "job", node_id: node.id } as const;
    const row = { ...of, number: number + 1, outcome, exit_code: 1, finished_at: new Date() };
    const { id } = await api.db.insertInto("run").values(row).returning("id").executeTakeFirstOrThrow();
    const data = Buffer.from(`attempt ${number + 1}`);
    await api.db.insertInto("log_chunk").values({ stream_id: id, offset: 0, data }).execute();
  }
  const canceled = await newJobRun(api.db, await newJob(api.db, { project_id }), { status: "canceled" });
  const offer = { project_id, owner_kind: "job", owner_id: canceled.id, kind: "job", node_id: node.id } as const;
  await api.db
    .insertInto("run")
    .values({ ...offer, number: 1 })
    .execute();
  const { attempts } = (await get(`/projects/${project_id}/job-runs/${canceled.id}`)).body;
  expect(attempts).toMatchObject([{ attempt: 1, status: "not_started" }]);
  const path = `/projects/${project_id}/job-runs/${run.id}`;
  const { body } = await get(path);
  expect(body.run).toMatchObject({ status: "failed", exitCode: 1, attemptCount: 2 });
  expect(body.attempts).toMatchObject([
    { attempt: 1, logBytes: 9 },
    { attempt: 2, status: "failed" },
  ]);
  expect((await get(`${path}/logs`)).body).toMatchObject({
    attempt: 2,
    log: "attempt 3",
    omittedBytes: 0,
    live: false,
  });
  expect((await get(`${path}/logs?attempt=1`)).body).toMatchObject({ attempt: 1, log: "attempt 1" });
  for (const attempt of ["3", "0", "x", "0x1", "1e0", "%201", "1001"]) {
    expect(await get(`${path}/logs?attempt=${attempt}`)).toMatchObject({
      status: 400,
      body: { error: { code: "INVALID_INPUT" } },
    });
  }
});

test("runs asked for by hand, and canceled, are bounded for an account", async () => {
  const project = await api.newProject(user);
  const { id: project_id } = project;
  const deployment = await api.newDeployment(project, { status: "running" });
  await api.db
    .updateTable("deployment")
    .set({ artifact_digest: `sha256:${"0".repeat(64)}` })
    .where("id", "=", deployment.id)
    .execute();
  await api.db
    .insertInto("channel_state")
    .values({ project_id, channel: "production", pr_number: 0, deployment_id: deployment.id, stopped: false })
    .execute();
  const job = await newJob(api.db, { project_id, deployment_id: deployment.id });
  const begin = () => api.call("POST", `/projects/${project_id}/jobs/${job.id}/run`, { session: user.session });
  let begun = 0;
  let last = await begin();
  while (last.status === 202 && begun < 1_000) {
    begun += 1;
    last = await begin();
  }
  expect(last).toMatchObject({ status: 429, body: { error: { code: "RATE_LIMITED" } } });
  expect(Number(last.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(begun).toBeGreaterThanOrEqual(120);
});
