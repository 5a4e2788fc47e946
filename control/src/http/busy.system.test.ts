import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildServer } from "../server.ts";
import { createDb } from "../stores/db/pool.ts";
import { lockWaits } from "../stores/db/testing.ts";
import { until } from "../stores/etcd/testing.ts";
import { createUploads } from "../tenants/deployments/upload/slots.ts";
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
  const server = buildServer({ ...api.context, db: impatient }, { uploads: createUploads(api.context.clock) });
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

test("requests of one account that wait for one another leave the database to others", async () => {
  const [busy, other] = [await api.newUser({ plan: { max_projects: 100 } }), await api.newUser()];
  const create = (number: number) =>
    api.call("POST", "/projects", { session: busy.session, body: { name: `Crowd ${number}`, type: "static" } });
  const apart = createDb({ url: api.context.config.databaseUrl });
  const sent = await apart.transaction().execute(async (tx) => {
    await tx.selectFrom("auth.user").select("id").where("id", "=", busy.id).forUpdate().execute();
    const crowd = Array.from({ length: 12 }, (_, number) => create(number));
    await until("one of them to wait", async () => (await lockWaits(apart)) > 0);
    expect((await api.call("GET", "/me", { session: other.session })).status).toBe(200);
    return crowd;
  });
  const replies = await Promise.all(sent);
  expect(replies.map(({ status }) => status)).toEqual(sent.map(() => 201));
  await apart.destroy();
});

test("nobody waits for a lock as long as a statement may take", async () => {
  const { rows } = await sql<{ wait: boolean }>`
    select current_setting('lock_timeout')::interval between interval '1 s' and interval '15 s' as wait`.execute(
    api.db,
  );
  expect(rows).toEqual([{ wait: true }]);
});

test("who still waits while the server closes is answered, and keeps no connection for a next request", async () => {
  await using closing = await testApi();
  const user = await closing.newUser();
  const project = await closing.newProject(user);
  const apart = createDb({ url: closing.context.config.databaseUrl });
  const { asking, closed } = await apart.transaction().execute(async (tx) => {
    await tx.selectFrom("project").select("id").where("id", "=", project.id).forUpdate().execute();
    const body = { productionBranch: "next" };
    const asking = closing.call("PATCH", `/projects/${project.id}`, { session: user.session, body });
    await until("it to wait", async () => (await lockWaits(apart)) > 0);
    const closed = closing.server.close();
    await until("the port to be closed", () => !closing.server.server.listening);
    return { asking, closed };
  });
  const answer = await asking;
  expect([answer.status, answer.headers.get("connection")]).toEqual([200, "close"]);
  await closed;
  await apart.destroy();
});
