import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { SampleSchema } from "@svc/proto/node";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { appendLog } from "../../../fleet/agents/logs.ts";
import { insertSamples } from "../../../fleet/agents/samples.ts";
import { createCollector } from "../../../fleet/artifacts/collect.ts";
import { keys } from "../../../fleet/cluster/keys.ts";
import { type OpenFleet, openFleet } from "../../../fleet/cluster/testing.ts";
import { findLogBytesMax } from "../../../fleet/tasks/assignment.ts";
import { insertRun } from "../../../fleet/tasks/run-rows.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../../stores/etcd/testing.ts";
import { claimWork } from "../../../stores/work/testing/claim.ts";
import { requestRemoval } from "../../deployments/remove/request.ts";
import { removeWorker } from "../../deployments/remove/worker.ts";
import { endRun, lockJob } from "../../jobs/runs/end.ts";
import { newJob } from "../../jobs/testing/job.ts";
import { newJobRun } from "../../jobs/testing/run.ts";
import { deleteRows, teardownWorker } from "./worker.ts";

const log = createLog("silent");
const now = () => new Date();
const never = new AbortController().signal;

let api: TestApi;
let db: Db;
let user: TestUser;
let etcdServer: EtcdServer;
let etcd: Etcd & AsyncDisposable;
let fleet: OpenFleet;
beforeAll(async () => {
  [etcdServer, api] = await Promise.all([startEtcd(), testApi()]);
  db = api.db;
  user = await api.newUser();
  etcd = testClient(etcdServer.endpoint);
  fleet = await openFleet(etcd, { clock: systemClock, log });
});
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
  await api?.[Symbol.asyncDispose]();
  await etcdServer?.[Symbol.asyncDispose]();
});

/** What the teardown deletes by itself, or leaves by intent: see `deleteRows`, and the collector for artifacts. */
const seenTo = [
  ...(["accepted_deploy", "artifact", "database", "database_copy", "dropped_database"] as const),
  // Runs of jobs go with these.
  ...(["job_run", "resource_sample", "run", "task"] as const),
];

test("every table that names a project or a deployment loses its rows with the project", async () => {
  const { rows } = await sql<{ name: string }>`
    select distinct table_name as name from information_schema.columns
    where table_schema = 'public' and column_name in ('project_id', 'deployment_id') and not exists (
      select from pg_constraint
      where contype = 'f' and confdeltype = 'c' and conrelid = format('public.%I', table_name)::regclass
        and confrelid in ('project'::regclass, 'deployment'::regclass))
    order by 1`.execute(db);
  expect(rows.map(({ name }) => name)).toEqual(seenTo);
});

const spec = {
  ...{
    kind: "build" as const,
    sourceRepository: "s",
    sourceDigest: "d",
    targetRepository: "svc/x",
    rootDirectory: "",
  },
  ...{ recipe: { static: { command: "", output: "." } }, timeoutSeconds: 1, maxImageMb: 1, maxUnpackedMb: 1 },
  cacheNamespace: "c",
};
const task = {
  ...{ specHash: "h", memoryMb: 1, cpuMillicores: 1, pidsLimit: 1, storageMb: 1, nodeSelector: {}, spec },
  ...{ reservedMemoryMb: 1, reservedCpuMillicores: 1 },
};

test("nothing is taken from nodes while the published table names the project, under whatever host", async () => {
  const edge = { generation: 1, digest: "", count: 1 };
  const [host, project] = [`${randomUUID()}.svc.localhost`, await api.newProject(user)];
  const deployment = await api.newDeployment(project, { status: "running" });
  const taskId = await insertTask(db, deployment, task, { replica: 0 });
  const publish = async (projectId: string) => {
    const entry = { host, projectId, channel: "production", page: { page: "PAGE_EMPTY" } };
    const ops = [
      { put: { key: keys.routesMeta, value: JSON.stringify(edge) } },
      { put: { key: keys.route(host), value: JSON.stringify(entry) } },
    ];
    await etcd.txn({ guards: [], ops });
    await until("the table is known", () => fleet.route(host)?.projectId === projectId);
  };
  const desired = async () =>
    (await db.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirst())?.desired;
  await using registry = createRegistry(systemClock, { url: "http://127.0.0.1:9" });
  const collector = createCollector({ clock: systemClock, db, registry, log });
  const teardown = teardownWorker({ clock: systemClock, db, etcd, fleet, collector, log });

  await publish(project.id);
  expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(200);
  await teardown(await claimed("teardown", 0), never);
  expect(await desired()).toBe("running");
  // Somebody else has the name by now.
  await publish(randomUUID());
  await db.updateTable("work_item").set({ state: "queued" }).where("kind", "=", "teardown").execute();
  await teardown(await claimed("teardown", 0), never);
  expect(await desired()).toBe("removed");
  await etcd.txn({ guards: [], ops: [{ delete: { key: keys.route(host) } }] });
  await db.deleteFrom("work_item").execute();
});

test("a view that stands still does not take from nodes what edges were told to serve meanwhile", async () => {
  const [host, project] = [`${randomUUID()}.svc.localhost`, await api.newProject(user)];
  const deployment = await api.newDeployment(project, { status: "running" });
  await api.db
    .insertInto("site_host")
    .values({ host, project_id: project.id, channel: "production", pr_number: null, slug: project.slug })
    .execute();
  const taskId = await insertTask(db, deployment, task, { replica: 0 });
  const generation = 10;
  const meta = { generation, digest: "", count: 0 };
  const standing = { ...fleet, route: () => null, isRouted: () => false };
  standing.routesMeta = () => ({ ...meta, modRevision: 1n });
  const entry = { host, projectId: project.id, channel: "production", page: { page: "PAGE_EMPTY" } };
  const ops = [
    { put: { key: keys.routesMeta, value: JSON.stringify({ ...meta, count: 1 }) } },
    { put: { key: keys.route(host), value: JSON.stringify(entry) } },
  ];
  await etcd.txn({ guards: [], ops });
  const desired = async () =>
    (await db.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirst())?.desired;
  await using registry = createRegistry(systemClock, { url: "http://127.0.0.1:9" });
  const collector = createCollector({ clock: systemClock, db, registry, log });
  const teardown = teardownWorker({ clock: systemClock, db, etcd, fleet: standing, collector, log });

  expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(200);
  await teardown(await claimed("teardown", 0), never);
  expect(await desired()).toBe("running");
  await etcd.txn({ guards: [], ops: [{ delete: { key: keys.route(host) } }] });
  await db.updateTable("work_item").set({ state: "queued" }).where("kind", "=", "teardown").execute();
  await teardown(await claimed("teardown", 0), never);
  expect(await desired()).toBe("removed");
  await db.deleteFrom("work_item").execute();
});

test("what serves what is open on replaced containers is over as soon as the project is deleted", async () => {
  const project = await api.newProject(user);
  const taskId = await insertTask(db, await api.newDeployment(project, { status: "superseded" }), task, { replica: 0 });
  const left = () => db.selectFrom("task").select("drain_seconds").where("id", "=", taskId).executeTakeFirst();
  await db.updateTable("task").set({ desired: "removed", drain_seconds: 3_600 }).where("id", "=", taskId).execute();
  expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(200);
  expect(await left()).toEqual({ drain_seconds: 0 });
  await db.deleteFrom("work_item").execute();
});

test("nothing is taken from nodes while an edge keeps what it served at one of the project's former hosts", async () => {
  const edge = await db
    .insertInto("node")
    .values({ role: "edge", name: randomUUID(), last_seen_at: now(), schedulable: true })
    .returning("id")
    .executeTakeFirstOrThrow();
  const project = await api.newProject(user);
  const deployment = await api.newDeployment(project, { status: "running" });
  const taskId = await insertTask(db, deployment, task, { replica: 0 });
  const desired = async () =>
    (await db.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirst())?.desired;
  await using registry = createRegistry(systemClock, { url: "http://127.0.0.1:9" });
  const collector = createCollector({ clock: systemClock, db, registry, log });
  const teardown = teardownWorker({ clock: systemClock, db, etcd, fleet, collector, log });
  const generation = 3;
  const meta = { key: keys.routesMeta, value: JSON.stringify({ generation, digest: "", count: 0 }) };
  const applied = async (behindHosts: string[]) => {
    const value = { generation, digest: "", error: null, behindHosts, at: now().toISOString() };
    const ops = [{ put: meta }, { put: { key: keys.edgeApplied(edge.id), value: JSON.stringify(value) } }];
    await etcd.txn({ guards: [], ops });
    const known = () => fleet.edgeApplied(edge.id)?.behindHosts.length === behindHosts.length;
    await until("it is known", () => known() && fleet.routesMeta().generation === generation);
  };

  // Somebody else has the name by now, whose files this edge does not have yet.
  await applied([`${project.slug}.svc.localhost`]);
  expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(200);
  await teardown(await claimed("teardown", 0), never);
  expect(await desired()).toBe("running");
  await applied([]);
  await teardown(await claimed("teardown", 0), never);
  expect(await desired()).toBe("removed");
  await etcd.txn({ guards: [], ops: [{ delete: { key: keys.edgeApplied(edge.id) } }] });
  await db.deleteFrom("node").where("id", "=", edge.id).execute();
  await db.deleteFrom("work_item").execute();
});

describe("what a node tells of a task while its project is deleted", () => {
  /** A project with a task on a node, and what the node tells of it. */
  async function aTold() {
    const project = await api.newProject(user);
    const deployment = await api.newDeployment(project, { status: "superseded" });
    const { id: nodeId } = await db
      .insertInto("node")
      .values({ role: "node", name: randomUUID(), last_seen_at: now(), schedulable: true })
      .returning("id")
      .executeTakeFirstOrThrow();
    const taskId = await insertTask(db, deployment, task, { replica: 0 });
    await db.updateTable("task").set({ node_id: nodeId, reaped_at: now() }).where("id", "=", taskId).execute();
    const sample = create(SampleSchema, { placementId: taskId, at: now().toISOString(), cpuPercent: 1 });
    return {
      erase: (tx: Db) => deleteRows(tx, project.id),
      tellSample: async (on: Db) => void (await insertSamples(on, nodeId, [sample])),
      tellLog: async (tx: Db) => {
        const bytesMax = await findLogBytesMax(tx, nodeId, taskId);
        if (bytesMax !== null) await appendLog(tx, taskId, 0, Buffer.from("line"), bytesMax);
      },
      async left() {
        const { rows } = await sql`
          select task_id::text as id from resource_sample union all select stream_id from log_chunk`.execute(db);
        return rows.filter((row) => (row as { id: string }).id === taskId).length;
      },
    };
  }
  type Act = (tx: Db) => Promise<unknown>;

  /** Does `first`, and before that counts lets `second` begin, which comes to its end or has to wait. */
  async function during(first: Act, second: Act): Promise<void> {
    let ended = false;
    let other: Promise<unknown> = Promise.resolve();
    await db.transaction().execute(async (tx) => {
      await first(tx);
      other = db
        .transaction()
        .execute(second)
        .finally(() => {
          ended = true;
        });
      await until("the other to end, or to wait", async () => ended || (await lockWaits(db)) > 0);
    });
    await other;
  }

  test.each(["tellSample", "tellLog"] as const)("leaves nothing: %s", async (tell) => {
    const one = await aTold();
    await during(one.erase, one[tell]);
    expect(await one.left()).toBe(0);
    const another = await aTold();
    await during(another[tell], another.erase);
    expect(await another.left()).toBe(0);
  });
});

test("how a job's run ended is written down before its project is deleted, or not at all", async () => {
  const project = await api.newProject(user);
  const job = await newJob(db, { project_id: project.id });
  const { id } = await newJobRun(db, job, { status: "running" });
  const of = { project_id: project.id, owner_kind: "job", owner_id: id, kind: "job" } as const;
  const attempt = await insertRun(db, { ...of, number: 1, node_id: randomUUID() });
  let erased: Promise<unknown> = Promise.resolve();
  await db.transaction().execute(async (tx) => {
    await lockJob(tx, job.id);
    erased = db.transaction().execute((other) => deleteRows(other, project.id));
    await until("the deletion to wait", async () => (await lockWaits(db)) > 0);
    await endRun(tx, { jobId: job.id, runId: id }, { status: "succeeded", reason: null, message: null });
    await tx
      .updateTable("run")
      .set({ outcome: "succeeded" })
      .where("id", "=", attempt?.id ?? "")
      .execute();
  });
  await erased;
  expect(await db.selectFrom("job_run").select("id").where("project_id", "=", project.id).execute()).toEqual([]);
});

test("nothing is deleted while a task is there that was made at the last moment", async () => {
  const project = await api.newProject(user);
  const deployment = await api.newDeployment(project, { status: "building" });
  const taskId = await insertTask(db, deployment, task, { replica: 0 });
  const erase = () => db.transaction().execute((tx) => deleteRows(tx, project.id));
  expect(await erase()).toBe(false);
  const rows = db.selectFrom("task").select("id").where("project_id", "=", project.id);
  expect(await rows.execute()).toEqual([{ id: taskId }]);
  await db.updateTable("task").set({ reaped_at: now() }).where("id", "=", taskId).execute();
  expect(await erase()).toBe(true);
  expect(await rows.execute()).toEqual([]);
});

test("the samples of a project go without a look at those of others", async () => {
  const project = await api.newProject(user);
  const deployment = await api.newDeployment(project, { status: "superseded" });
  const ids = [
    await insertTask(db, deployment, task, { replica: 0 }),
    await insertTask(db, deployment, task, { replica: 1 }),
  ];
  await db.updateTable("task").set({ reaped_at: now() }).where("id", "in", ids).execute();
  for (const id of ids)
    await sql`insert into resource_sample
      select ${id}, ${project.id}, now() - n * interval '1 min', 1, 1, 1 from generate_series(1, 100) as n`.execute(db);
  await sql`insert into resource_sample
    select ('00000000-0000-4000-8000-' || lpad((n % 50)::text, 12, '0'))::uuid, gen_random_uuid(),
      now() - n * interval '1 s', 1, 1, 1
    from generate_series(1, 50000) as n`.execute(db);
  await sql`analyze resource_sample`.execute(db);
  const read = await db.transaction().execute(async (tx) => {
    const before = await readThrough(tx);
    await deleteRows(tx, project.id);
    return (await readThrough(tx)) - before;
  });
  const { rows: left } = await sql<{ count: number }>`select count(*) as count from resource_sample`.execute(db);
  expect(left[0]?.count).toBe(50_000);
  expect(read).toBe(0);
});

/** Samples that this connection has read one after another, without an index. */
async function readThrough(tx: Db): Promise<number> {
  const { rows } = await sql<{ read: number }>`
    select seq_tup_read as read from pg_stat_xact_user_tables where relname = 'resource_sample'`.execute(tx);
  return rows[0]?.read ?? 0;
}

/** As if it had been waiting for so long. */
async function claimed(kind: string, ageMs: number) {
  const created_at = sql<Date>`now() - ${ageMs} * interval '1 millisecond'`;
  // Within one transaction no time passes.
  const item = await db.transaction().execute(async (tx) => {
    await tx
      .updateTable("work_item")
      .set({ created_at, state: "queued", run_at: sql<Date>`now()` })
      .where("kind", "=", kind)
      .execute();
    return claimWork(tx, { kinds: [kind], owner: "test", leaseMs: 60_000 });
  });
  if (item === null) throw new Error(`no ${kind} to do`);
  return item;
}

test("a deletion and a removal that wait for an edge that is away look less and less often", async () => {
  const edge = await db
    .insertInto("node")
    .values({ role: "edge", name: "away", last_seen_at: now(), schedulable: true })
    .returning("id")
    .executeTakeFirstOrThrow();
  const meta = { generation: 7, digest: "", count: 0 };
  await etcd.txn({ guards: [], ops: [{ put: { key: keys.routesMeta, value: JSON.stringify(meta) } }] });
  await until("the table is known", () => fleet.routesMeta().generation === 7);
  await using registry = createRegistry(systemClock, { url: "http://127.0.0.1:9" });
  const collector = createCollector({ clock: systemClock, db, registry, log });
  const teardown = teardownWorker({ clock: systemClock, db, etcd, fleet, collector, log });
  const remove = removeWorker({ clock: systemClock, db, etcd, fleet, drainMs: 0, log });

  const doomed = await api.newProject(user);
  expect((await api.call("DELETE", `/projects/${doomed.id}`, { session: user.session })).status).toBe(200);
  const project = await api.newProject(user);
  const deployment = await api.newDeployment(project, { channel: "preview", status: "running" });
  await db
    .insertInto("site_host")
    .values({ host: `${randomUUID()}.svc.localhost`, project_id: project.id, channel: "preview" })
    .execute();
  await db
    .insertInto("channel_state")
    .values({ project_id: project.id, channel: "preview", deployment_id: deployment.id })
    .execute();
  await db.transaction().execute((tx) => requestRemoval(tx, deployment, "a test"));

  for (const [kind, work] of Object.entries({ teardown, remove })) {
    const waits = [];
    for (const ageMs of [0, 20_000, 3_600_000]) {
      const outcome = await work(await claimed(kind, ageMs), never);
      waits.push("retryAfterMs" in outcome && outcome.refund === true ? outcome.retryAfterMs : outcome);
    }
    expect(waits).toEqual([500, 5_000, 15_000]);
  }
  await db.deleteFrom("node").where("id", "=", edge.id).execute();
  await db.deleteFrom("work_item").execute();
});
