import { isJobRunOver, jobRunStatuses, limits } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../../http/testing.ts";
import type { JobRun } from "../../../stores/db/tables.ts";
import { newJob } from "../testing/job.ts";
import { newJobRun } from "../testing/run.ts";
import { expireJobRuns } from "./expire.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api[Symbol.asyncDispose]());

test("old runs go with their attempts and output, but for the last success, the last failure and what is not over", async () => {
  const { db } = api;
  const { id: project_id } = await api.newProject(await api.newUser());
  const job = await newJob(db, { project_id });
  const ages: [JobRun["status"], number][] = [
    ...([
      ["running", 200],
      ["succeeded", 120],
      ["succeeded", 110],
      ["timed_out", 105],
      ["failed", 100],
    ] as const),
    ...([
      ["skipped", 95],
      ["canceled", 10],
    ] as const),
  ].map(([status, days]) => [status, days]);
  const [node] = await db.insertInto("node").values({ role: "node", name: "n" }).returning("id").execute();
  for (const [status, days] of ages) {
    const finished_at = status === "running" ? null : sql<Date>`now() - ${days} * interval '1 day'`;
    const run = await newJobRun(db, job, { status, finished_at: finished_at as never });
    const attempt = { project_id, owner_kind: "job", owner_id: run.id, kind: "job", node_id: node?.id ?? "" } as const;
    const { id } = await db
      .insertInto("run")
      .values({ ...attempt, number: 1, outcome: "failed" })
      .returning("id")
      .executeTakeFirstOrThrow();
    await db
      .insertInto("log_chunk")
      .values({ stream_id: id, offset: 0, data: Buffer.from(status) })
      .execute();
  }
  expect(await expireJobRuns(db)).toBe(3);
  expect(await expireJobRuns(db)).toBe(0);
  const left = await db.selectFrom("job_run").select("status").where("job_id", "=", job.id).orderBy("number").execute();
  expect(left.map(({ status }) => status)).toEqual(["running", "succeeded", "failed", "canceled"]);
  const attempts = await db.selectFrom("run").select("id").where("kind", "=", "job").execute();
  const output = await db.selectFrom("log_chunk").select("stream_id").execute();
  expect(output.map(({ stream_id }) => stream_id).sort()).toEqual(attempts.map(({ id }) => id).sort());
  expect(attempts).toHaveLength(4);
});

test("beyond the newest of a job the others go, however many, and its last success and failure stay wherever they are", async () => {
  const { db } = api;
  const { id: project_id } = await api.newProject(await api.newUser());
  const job = await newJob(db, { project_id });
  const few = await newJob(db, { project_id });
  const row = { job_id: job.id, project_id, deployment_id: job.deployment_id, trigger: "schedule" as const };
  const insert = async (status: JobRun["status"], count: number, of = row) => {
    await sql`insert into job_run (job_id, project_id, deployment_id, trigger, status, finished_at)
      select ${of.job_id}, ${project_id}, ${of.deployment_id}, 'schedule', ${status}, now() from generate_series(1, ${count})`.execute(
      db,
    );
  };
  await insert("failed", 2);
  await insert("succeeded", 2);
  await insert("canceled", 700);
  await insert("skipped", limits.jobRunsKeptMax);
  await insert("skipped", 3, { ...row, job_id: few.id });
  expect(await expireJobRuns(db)).toBe(702);
  expect(await expireJobRuns(db)).toBe(0);
  const left = await db
    .selectFrom("job_run")
    .select(["status", (of) => of.fn.countAll<number>().as("count")])
    .where("job_id", "in", [job.id, few.id])
    .groupBy("status")
    .orderBy("status")
    .execute();
  expect(left.map(({ status, count }) => [status, Number(count)])).toEqual([
    ["failed", 1],
    ["skipped", limits.jobRunsKeptMax + 3],
    ["succeeded", 1],
  ]);
});

test("the indexes that find what is over know every status that is", async () => {
  const over = jobRunStatuses.filter(isJobRunOver);
  const { rows } = await sql<{ indexdef: string }>`
    select indexdef from pg_indexes where indexname in ('job_run_over', 'job_run_finished')`.execute(api.db);
  expect(rows).toHaveLength(2);
  for (const { indexdef } of rows) for (const status of over) expect(indexdef).toContain(`'${status}'`);
});
