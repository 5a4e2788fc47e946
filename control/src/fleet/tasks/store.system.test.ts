import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Task } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { wantPlanLimits } from "../limits/worker.ts";
import { removeTasks, stopTasks } from "./change.ts";
import { insertTask, listOpenTasks } from "./store.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

/** Tasks of one project by epoch, which neither the table nor its index has them in. */
async function threeTasks(): Promise<Task[]> {
  const project = await api.newProject(await api.newUser());
  const deployment = await api.newDeployment(project, { status: "running" });
  const tasks = [];
  const ids = Array.from({ length: 3 }, () => randomUUID()).sort();
  for (const id of ids.toReversed()) tasks.push(await api.newTask(deployment, { id }));
  await sql`with gone as (delete from task where project_id = ${project.id} returning *)
    insert into task overriding system value select * from gone order by epoch desc`.execute(api.db);
  return tasks;
}

const placed = (tx: Db, task: Task | undefined) =>
  tx
    .updateTable("task")
    .set({ refused: null })
    .where("id", "=", task?.id ?? "")
    .execute();

test.each<{ what: string; change: (tx: Db, tasks: Task[]) => Promise<unknown> }>([
  { what: "changes limits", change: (tx, [task]) => wantPlanLimits(tx, task?.project_id ?? "") },
  { what: "stops", change: (tx, tasks) => stopTasks(tx, tasks.map(({ id }) => id).toReversed()) },
  { what: "removes", change: (tx, tasks) => removeTasks(tx, tasks.map(({ id }) => id).toReversed()) },
])("who $what and who goes by epoch do not wait for one another", async ({ change }) => {
  const tasks = await threeTasks();
  let other: Promise<unknown> | undefined;
  await api.db.transaction().execute(async (tx) => {
    await placed(tx, tasks[0]);
    other = api.db.transaction().execute((mine) => change(mine, tasks));
    // Its rejection is looked at below.
    other.catch(() => {});
    await until("the other one to wait", async () => (await lockWaits(api.db)) > 0);
    await placed(tx, tasks[1]);
    await placed(tx, tasks[2]);
  });
  await other;
  const rows = await api.db
    .selectFrom("task")
    .selectAll()
    .where("project_id", "=", tasks[0]?.project_id ?? "")
    .orderBy("epoch")
    .execute();
  expect(rows.map(({ desired, memory_mb }) => desired !== "running" || memory_mb !== 256)).toEqual([true, true, true]);
});

test("what can run on one node alone is known to whoever finds nodes", async () => {
  const project = await api.newProject(await api.newUser());
  const deployment = await api.newDeployment(project, { status: "running" });
  const spec = {
    ...{ kind: "serve" as const, repository: "svc/shop/app", digest: "sha256:1", registryHost: null, command: [] },
    ...{ port: 8080, health: { path: "/", timeoutSeconds: 60 }, maxImageMb: 100 },
  };
  const limits = {
    ...{ memoryMb: 256, cpuMillicores: 100, pidsLimit: 64, storageMb: 0, nodeSelector: {} },
    ...{ reservedMemoryMb: 64, reservedCpuMillicores: 10 },
  };
  const pinnedTo = randomUUID();
  const pinned = await insertTask(api.db, deployment, { spec, ...limits, pinnedTo }, { replica: 0 });
  const free = await insertTask(api.db, deployment, { spec, ...limits }, { replica: 1 });
  const open = new Map((await listOpenTasks(api.db)).map((task) => [task.id, task]));
  expect([open.get(pinned)?.pinned_to, open.get(free)?.pinned_to]).toEqual([pinnedTo, null]);
  expect(open.get(free)).toMatchObject({ owner_kind: "deployment", owner_id: deployment.id });
});
