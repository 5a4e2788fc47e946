import { afterAll, beforeAll, expect, test } from "vitest";
import { type AlertWork, alertWork } from "../../../fleet/alerts/raise.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { newJob } from "../testing/job.ts";
import { newJobRun } from "../testing/run.ts";
import { endRun } from "./end.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

test("a run that fails is told of while there is its job, and not once that was retired", async () => {
  const { db } = api;
  const { id: project_id } = await api.newProject(await api.newUser());
  for (const retired_at of [null, new Date()]) {
    const job = await newJob(db, { project_id, name: retired_at === null ? "there" : "retired", retired_at });
    const { id: runId } = await newJobRun(db, job, { status: "running" });
    const ended = await db
      .transaction()
      .execute((tx) =>
        endRun(tx, { jobId: job.id, runId }, { status: "failed", reason: "exit", message: "Exit code 1." }),
      );
    expect(ended).toMatchObject({ status: "failed" });
  }
  const said = await db.selectFrom("work_item").select("payload").where("kind", "=", alertWork).execute();
  expect(said.map(({ payload }) => (payload as AlertWork).says?.subject)).toEqual(["there"]);
});
