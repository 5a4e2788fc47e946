import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDb } from "../db/pool.ts";
import { createUploads } from "../deployments/upload/slots.ts";
import { buildServer } from "./server.ts";
import { type TestApi, testApi } from "./testing.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

test("a request that waits too long for what somebody holds is told to come again", async () => {
  const user = await api.newUser();
  const project = await api.newProject(user);
  const impatient = createDb({ url: api.context.config.databaseUrl, lockTimeoutMs: 100 });
  const server = buildServer({ ...api.context, db: impatient }, { uploads: createUploads() });
  const patch = () =>
    server.inject({
      ...{ method: "PATCH" as const, url: `/api/v1/projects/${project.id}` },
      headers: { authorization: `Bearer ${user.session}` },
      payload: { productionBranch: "next" },
    });
  try {
    await api.db.transaction().execute(async (tx) => {
      await tx.selectFrom("project").select("id").where("id", "=", project.id).forUpdate().execute();
      const answer = await patch();
      expect([answer.statusCode, answer.json().error.code]).toEqual([503, "UNAVAILABLE"]);
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    });
    expect((await patch()).statusCode).toBe(200);
  } finally {
    await server.close();
    await impatient.destroy();
  }
});

test("nobody waits for a lock as long as a statement may take", async () => {
  const { rows } = await sql<{ wait: boolean }>`
    select current_setting('lock_timeout')::interval between interval '1 s' and interval '15 s' as wait`.execute(
    api.db,
  );
  expect(rows).toEqual([{ wait: true }]);
});
