import { randomUUID } from "node:crypto";
import { manifestSchema } from "@svc/proto";
import type { Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { keys, type ObservationValue, type RunValue, runValue } from "../../fleet/cluster/keys.ts";
import { findChannelState, setChannelState } from "../../fleet/routes/store.ts";
import { serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import type { TestApi, TestUser } from "../../http/testing.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { until } from "../../stores/etcd/testing.ts";
import { type ClaimedWork, enqueue } from "../../stores/work/queue.ts";
import { claimHost } from "../hosts/hosts.ts";
import { deploysOnPostgres } from "./postgres.ts";
import { retireRows } from "./retire/rows.ts";
import { retireWorker } from "./retire/worker.ts";
import { type TestCluster, testCluster } from "./testing/cluster.ts";
import { deployWorker } from "./worker.ts";

// Workers that are late: their view of the cluster is behind, or somebody else moved on while they stood still.

let cluster: TestCluster;
let etcd: Etcd;
let fleet: Fleet;
let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  cluster = await testCluster();
  ({ etcd, fleet, api } = cluster);
  user = await api.newUser();
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const artifact = {
  artifact_kind: "image" as const,
  artifact_repository: "svc/x/app",
  artifact_digest: `sha256:${"a".repeat(64)}`,
};
const item = (kind: string, deployment: Deployment): ClaimedWork => ({
  id: 1,
  kind,
  key: deployment.project_id,
  payload: { deploymentId: deployment.id },
  attempt: 1,
  maxAttempts: 20,
  ageMs: 0,
});
const deps = (view: Fleet) => ({
  clock: systemClock,
  etcd,
  fleet: view,
  log: api.context.log,
});
const deploys = (view: Fleet) =>
  deployWorker({
    ...deps(view),
    ...deploysOnPostgres({
      ...{ clock: systemClock, db: api.db, registry: {} as Registry },
      resolveImage: () => Promise.reject(new Error("nothing to resolve")),
    }),
  });

/** A deployment whose release command runs, as etcd has it. */
async function releasing(project: Project, more: Partial<Deployment> = {}) {
  const nodeId = randomUUID();
  const deployment = await api.newDeployment(project, {
    ...{ status: "deploying", ...artifact, phase_started_at: new Date() },
    release_status: "running",
    manifest: manifestSchema.parse({
      version: 2,
      app: { name: "Shop", type: "ssr" },
      start: { command: "node server.js" },
      release: { command: "node migrate.js", timeoutSeconds: 300 },
    }),
    ...more,
  });
  const { id: attemptId } = await api.newRun(deployment, { node_id: nodeId });
  const at = new Date().toISOString();
  const run: RunValue = {
    ...{ attemptId, kind: "release", ownerKind: "deployment", ownerId: deployment.id, projectId: project.id },
    ...{ state: "started", cancel: false },
    ...{
      acceptedBy: null,
      token: "t",
      exitCode: null,
      timedOut: false,
      message: null,
      startedAt: at,
      finishedAt: null,
      changedAt: at,
    },
  };
  const key = keys.run(nodeId, attemptId);
  await etcd.txn({ guards: [], ops: [{ put: { key, value: JSON.stringify(run) } }] });
  const read = async () => {
    const entry = await etcd.get(key);
    return entry === null ? null : runValue.parse(JSON.parse(entry.value));
  };
  return { deployment, read };
}

const statusOf = async ({ id }: Deployment) =>
  (await api.db.selectFrom("deployment").select("status").where("id", "=", id).executeTakeFirstOrThrow()).status;
/** The watch has not brought the runs yet. */
const behind = (): Fleet => ({ ...fleet, findRun: () => null, runs: () => [] });

test("a release command that the view does not show is neither given up nor forgotten", async () => {
  const project = await api.newProject(user, { type: "ssr" });
  const { deployment, read } = await releasing(project);
  const stop = new AbortController();
  const work = deploys(behind())(item("deploy", deployment), stop.signal);
  expect(
    await retireWorker({ ...deps(behind()), rows: retireRows(api.db), drainMs: 0 })(
      item("retire", deployment),
      stop.signal,
    ),
  ).toMatchObject({
    refund: true,
  });
  expect(await read()).toMatchObject({ state: "started", cancel: true });
  stop.abort();
  await work;
  expect(await statusOf(deployment)).toBe("deploying");
});

test("one that the view does not show is ended before its deployment is canceled", async () => {
  const project = await api.newProject(user, { type: "ssr" });
  const { deployment, read } = await releasing(project, { cancel_requested_at: new Date() });
  const stop = new AbortController();
  const work = deploys(behind())(item("deploy", deployment), stop.signal);
  await until("the node to be asked", async () => (await read())?.cancel === true);
  expect(await statusOf(deployment)).toBe("deploying");
  stop.abort();
  await work;
});

test.each([
  { when: "it was asked for", values: { cancel_requested_at: new Date() }, says: "Canceled: as requested." },
  { when: "a newer one is queued", values: {}, says: "Canceled: a newer deployment of this channel is queued." },
])("a canceled deployment says why: $when", async ({ values, says }) => {
  const project = await api.newProject(user, { type: "ssr" });
  const deployment = await api.newDeployment(project, { status: "queued", ...values });
  await api.newDeployment(project, { status: "queued" });
  const stop = new AbortController();
  await deploys(fleet)(item("deploy", deployment), stop.signal);
  const { body } = await api.call("GET", `/deployments/${deployment.id}`, { session: user.session });
  expect(body.deployment).toMatchObject({ status: "canceled", error: says });
});

test("a deployment that is canceled before anybody works on it says why", async () => {
  const deployment = await api.newDeployment(await api.newProject(user), { status: "queued" });
  await api.call("POST", `/deployments/${deployment.id}/cancel`, { session: user.session });
  const { body } = await api.call("GET", `/deployments/${deployment.id}`, { session: user.session });
  expect(body.deployment).toMatchObject({ status: "canceled", error: "Canceled: as requested." });
});

test("a worker that stood still does not take the container of what runs by now", async () => {
  const { db } = api;
  const project = await api.newProject(user, { type: "ssr" });
  const deployment = await api.newDeployment(project, {
    ...{ status: "deploying", ...artifact, phase_started_at: new Date() },
  });
  const manifest = manifestSchema.parse(deployment.manifest);
  const spec = serveTask(deployment, await planOfUser(db, user.id), manifest, null);
  const taskId = await insertTask(db, deployment, spec, { replica: 0 });
  const long = new Date(Date.now() - 120_000);
  const nodeId = randomUUID();
  // It sees a node that is long gone, and then stands before the row until another worker has finished.
  const lostNode: Fleet = {
    ...fleet,
    lookingSince: long,
    findPlacement: () => ({ nodeId, placement: {} as never }),
    nodeLostAt: () => long,
  };
  const held = Promise.withResolvers<void>();
  const stop = new AbortController();
  let work: Promise<unknown> = Promise.resolve();
  await db.transaction().execute(async (tx) => {
    await sql`select 1 from deployment where id = ${deployment.id} for update`.execute(tx);
    work = deploys(lostNode)(item("deploy", deployment), stop.signal);
    await until("it to stand still", () => isWaitingForLock());
    stop.abort();
    await tx.updateTable("deployment").set({ status: "running" }).where("id", "=", deployment.id).execute();
    await setChannelState(tx, deployment, { deploymentId: deployment.id, stopped: false });
    held.resolve();
  });
  await held.promise;
  await work;
  const task = await db.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirstOrThrow();
  expect(task.desired).toBe("running");
});

test("a replica whose clock is ahead holds up nobody: what drains is timed by one clock", async () => {
  const project = await api.newProject(user, { type: "ssr" });
  const deployment = await api.newDeployment(project, { status: "superseded", ...artifact });
  const task = await api.newTask(deployment, { kind: "serve", desired: "running" });
  const nodeId = randomUUID();
  const observation: ObservationValue = {
    ...{ placementId: task.id, epoch: 1, statusSeq: 1, observed: "running", health: "healthy", restartSeq: 0 },
    ...{ upstream: "127.0.1.1:20000", failure: null, build: null, changedAt: new Date().toISOString() },
  };
  const value = JSON.stringify(observation);
  await etcd.txn({ guards: [], ops: [{ put: { key: keys.observation(nodeId, task.id), value } }] });
  const key = `retire/${deployment.id}`;
  const id = await enqueue(api.db, { kind: "retire", key, payload: { deploymentId: deployment.id } });
  const placed: Fleet = { ...fleet, findPlacement: () => ({ nodeId, placement: {} as never }) };
  const retire = (aheadMs: number) => {
    const clock = { ...systemClock, now: () => new Date(Date.now() + aheadMs) };
    const worker = retireWorker({ ...deps(placed), rows: retireRows(api.db), clock, drainMs: 200 });
    return worker({ ...item("retire", deployment), id }, AbortSignal.timeout(5_000));
  };
  expect(await retire(3_600_000)).toMatchObject({ refund: true });
  await until("it to have drained", async () => "state" in (await retire(0)));
  expect(await api.db.selectFrom("task").select("desired").where("id", "=", task.id).execute()).toEqual([
    { desired: "removed" },
  ]);
});

test("a channel is not given back to what is being removed at the same moment", async () => {
  const { db } = api;
  const project = await api.newProject(user, { type: "static" });
  const place = { channel: "preview" as const, ...artifact, artifact_kind: "bundle" as const };
  const previous = await api.newDeployment(project, { ...place, status: "running" });
  const canceled = await api.newDeployment(project, {
    ...{ ...place, status: "deploying", cancel_requested_at: new Date(), phase_started_at: new Date() },
  });
  await db
    .transaction()
    .execute((tx) => claimHost(tx, project, { channel: "preview", prNumber: null }, "svc.localhost"));
  await setChannelState(db, canceled, { deploymentId: canceled.id, stopped: false });
  const stop = new AbortController();
  let work: Promise<unknown> = Promise.resolve();
  let removal: Promise<{ status: number }> = Promise.resolve({ status: 0 });
  await db.transaction().execute(async (tx) => {
    // Between what the worker reads of the channel and what it writes.
    await sql`select 1 from channel_state where deployment_id = ${canceled.id} for update`.execute(tx);
    work = deploys(fleet)(item("deploy", canceled), stop.signal);
    await until("the worker to stand still", () => isWaitingForLock());
    removal = api.call("DELETE", `/deployments/${previous.id}`, { session: user.session });
    await until(
      "the removal to wait or to be done",
      async () => (await isWaitingForLock(2)) || (await statusOf(previous)) !== "running",
    );
  });
  await work;
  expect((await removal).status).toBe(202);
  expect(await statusOf(canceled)).toBe("canceled");
  expect((await findChannelState(db, previous))?.deployment_id ?? null).toBeNull();
});

async function isWaitingForLock(count = 1): Promise<boolean> {
  return (await lockWaits(api.db)) >= count;
}
