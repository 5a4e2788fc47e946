import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../../http/testing.ts";
import type { Deployment } from "../../../stores/db/tables.ts";
import { expireLogs } from "./expire.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const dayMs = 86_400_000;

/** A deployment with a build log and the output of a release command, `days` old. Returns the two streams. */
async function logged(status: Deployment["status"], days: number): Promise<string[]> {
  const project = await api.newProject(await api.newUser());
  const deployment = await api.newDeployment(project, { status });
  const build = await api.newTask(deployment, { kind: "build" });
  const release = await api.newRun(deployment, { node_id: randomUUID() });
  const streams = [build.id, release.id];
  const created_at = new Date(Date.now() - days * dayMs);
  for (const stream_id of streams) {
    await api.db
      .insertInto("log_chunk")
      .values([0, 4].map((offset) => ({ stream_id, offset, data: Buffer.from("text"), created_at })))
      .execute();
  }
  return streams;
}

test("old logs go, those of what serves stay", async () => {
  const streams = {
    failed: await logged("failed", 31),
    superseded: await logged("superseded", 31),
    recent: await logged("failed", 29),
    running: await logged("running", 400),
    stopped: await logged("stopped", 400),
  };
  expect(await expireLogs(api.db, 30)).toBe(8);
  const left = await api.db.selectFrom("log_chunk").select("stream_id").distinct().execute();
  expect(left.map(({ stream_id }) => stream_id).sort()).toEqual(
    [...streams.recent, ...streams.running, ...streams.stopped].sort(),
  );
  expect(await expireLogs(api.db, 30)).toBe(0);
});
