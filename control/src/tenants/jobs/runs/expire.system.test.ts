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
