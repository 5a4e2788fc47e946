import { manifestSchema } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listDraining } from "../../fleet/tasks/change.ts";
import { serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import { type TestApi, testApi } from "../../http/testing.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import { listProjects } from "./store.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

/** Rows of `task` that this transaction has read. */
async function readOf(tx: Db): Promise<number> {
  const { rows } = await sql<{ read: number }>`
    select seq_tup_read + idx_tup_fetch as read from pg_stat_xact_user_tables where relname = 'task'`.execute(tx);
  return rows[0]?.read ?? 0;
}

test("whoever asks what somebody's projects run does not look through what others run", async () => {
  const [user, other] = [await api.newUser(), await api.newUser()];
  const image = { artifact_kind: "image", artifact_repository: "svc/x/app", artifact_digest: "sha256:1" } as const;
  const running = async (ownerId: string) => {
    const project = await api.newProject(ownerId === user.id ? user : other);
    const deployment = await api.newDeployment(project, { ...image, status: "running" });
    const manifest = manifestSchema.parse(deployment.manifest);
    const task = serveTask(deployment, await planOfUser(api.db, ownerId), manifest, null);
    return { project, taskId: await insertTask(api.db, deployment, task, { replica: 0 }) };
  };
  const [own, theirs] = [await running(user.id), await running(other.id)];
  await sql`insert into task overriding user value
    select copy.* from task, generate_series(1, 10000) as n,
      jsonb_populate_record(task, jsonb_build_object('id', md5(n::text)::uuid)) as copy
    where task.id = ${theirs.taskId}`.execute(api.db);
  await sql`analyze task`.execute(api.db);
  const read = await api.db.transaction().execute(async (tx) => {
    const before = await readOf(tx);
    expect(await listProjects(tx, { userId: user.id, projectIds: null })).toHaveLength(1);
    await listDraining(tx, { projectIds: [own.project.id] });
    return (await readOf(tx)) - before;
  });
  expect(read).toBeLessThan(10);
});
