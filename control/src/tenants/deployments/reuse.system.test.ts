import { randomUUID } from "node:crypto";
import { manifestSchema } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import type { ObservationValue } from "../../fleet/cluster/keys.ts";
import { buildTask } from "../../fleet/tasks/kinds/build.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import type { TestApi } from "../../http/testing.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { until } from "../../stores/etcd/testing.ts";
import { deploysOnPostgres } from "./postgres.ts";
import { type TestCluster, testCluster } from "./testing/cluster.ts";
import { deployWorker } from "./worker.ts";

const digest = `sha256:${"a".repeat(64)}`;
const key = "b".repeat(64);

let cluster: TestCluster;
let etcd: Etcd;
let fleet: Fleet;
let api: TestApi;
beforeAll(async () => {
  cluster = await testCluster();
  ({ etcd, fleet, api } = cluster);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** A deployment whose node says that the build of an earlier one is its own, too. */
async function reusing(app: object = {}) {
  const { db } = api;
  const user = await api.newUser();
  const project = await api.newProject(user, { type: "ssr" });
  const source = { source_repository: `svc/${project.id}/source`, source_digest: `sha256:${"0".repeat(64)}` };
  const artifact_repository = `svc/${project.id}/app`;
  const earlier = await api.newDeployment(project, {
    ...{ status: "superseded", ...source, build_key: key },
    ...{ artifact_kind: "image", artifact_repository, artifact_digest: digest, artifact_size: 7 },
  });
  const deployment = await api.newDeployment(project, {
    ...{ status: "building", phase_started_at: new Date(), ...source },
    ...{ manifest: manifestSchema.parse({ version: 2, app: { name: "Chat", type: "ssr", ...app } }) },
  });
  const plan = await planOfUser(db, user.id);
  const task = buildTask(deployment, project, plan, manifestSchema.parse(deployment.manifest));
  const taskId = await insertTask(db, deployment, task, { replica: 0 });
  const observed = { digest, sizeBytes: 7, os: "linux", architecture: "amd64", key, reusedFrom: earlier.id };
  const observation: ObservationValue = {
    ...{ placementId: taskId, epoch: 1, statusSeq: 1, observed: "completed", health: null, restartSeq: 0 },
    ...{ upstream: null, failure: null, changedAt: new Date().toISOString() },
    build: observed,
  };
  const nodeId = randomUUID();
  const view: Fleet = {
    ...fleet,
    findPlacement: (id) => (id === taskId ? { nodeId, placement: {} as never } : null),
    observation: (_, id) => (id === taskId ? observation : null),
    nodeLostAt: () => null,
  };
  return { earlier, deployment, taskId, view, observed };
}

const rowOf = ({ id }: Deployment) =>
  api.db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const phasesOf = ({ id }: Deployment) =>
  api.db.selectFrom("deployment_event").select(["phase", "detail"]).where("deployment_id", "=", id).execute();

/** Works on the deployment until `condition`. */
async function workUntil(
  { deployment, view }: { deployment: Deployment; view: Fleet },
  getManifest: Registry["getManifest"],
  condition: () => Promise<boolean>,
): Promise<void> {
  const stop = new AbortController();
  const work = deployWorker({
    ...{ etcd, fleet: view, log: api.context.log, clock: systemClock },
    ...deploysOnPostgres({
      ...{ db: api.db, clock: systemClock, registry: { getManifest } },
      resolveImage: () => Promise.reject(new Error("nothing to resolve")),
    }),
  });
  const payload = { deploymentId: deployment.id };
  const item = { id: 1, kind: "deploy", key: deployment.project_id, payload, attempt: 1, maxAttempts: 20, ageMs: 0 };
  const working = work(item, stop.signal);
  try {
    await until("the worker to come that far", condition);
  } finally {
    stop.abort();
    await working.catch(() => {});
  }
}

test("an earlier build becomes this one's, and may be the next one's", async () => {
  const made = await reusing();
  await workUntil(
    made,
    async () => ({}) as never,
    async () => (await rowOf(made.deployment)).status === "deploying",
  );
  expect(await rowOf(made.deployment)).toMatchObject({
    artifact_kind: "image",
    artifact_digest: digest,
    build_key: key,
  });
  const detail = `the build of ${made.earlier.id} is used`;
  expect(await phasesOf(made.deployment)).toContainEqual({ phase: "built", detail });
});

test("what an earlier build warned of is said of the one that uses it, and nothing of another project's", async () => {
  for (const own of [true, false]) {
    const made = await reusing();
    const other = own ? made.earlier : (await reusing()).deployment;
    made.observed.reusedFrom = other.id;
    const detail = "There is no index.html.";
    await api.db.insertInto("deployment_event").values({ deployment_id: other.id, phase: "warning", detail }).execute();
    await workUntil(
      made,
      async () => ({}) as never,
      async () => (await rowOf(made.deployment)).status === "deploying",
    );
    const said = (await phasesOf(made.deployment)).filter(({ phase }) => phase === "warning");
    expect(said).toEqual(own ? [{ phase: "warning", detail }] : []);
  }
});

test.each([
  { replicas: 2, packages: ["@svc/realtime"], warned: true },
  { replicas: 2, packages: undefined, warned: false },
  { replicas: 1, packages: ["@svc/realtime"], warned: false },
])("events that reach a part of the visitors are warned of by what runs now: %o", async ({ warned, ...now }) => {
  const made = await reusing({ replicas: now.replicas });
  if (now.packages !== undefined) Object.assign(made.observed, { packages: now.packages });
  // It was so when the build was made: that says nothing of how it is used now.
  const before = await reusing({ replicas: 2 });
  Object.assign(before.observed, { packages: ["@svc/realtime"] });
  const isDeploying = (deployment: Deployment) => async () => (await rowOf(deployment)).status === "deploying";
  await workUntil(before, async () => ({}) as never, isDeploying(before.deployment));
  const [said] = (await phasesOf(before.deployment)).filter(({ phase }) => phase === "warning");
  expect(said?.detail).toMatch(
    /only the visitors of the replica that publishes it\. Write database: \{ enabled: true \}/,
  );
  const earlier = { deployment_id: made.earlier.id, phase: "warning", detail: said?.detail ?? "" };
  await api.db.insertInto("deployment_event").values(earlier).execute();
  await workUntil(made, async () => ({}) as never, isDeploying(made.deployment));
  expect((await phasesOf(made.deployment)).filter(({ phase }) => phase === "warning")).toEqual(warned ? [said] : []);
});

test("where the registry does not have it any more it is built, and used for nothing else", async () => {
  const made = await reusing();
  const gone = () => Promise.reject(new RegistryError("ARTIFACT_NOT_FOUND", "not there"));
  const tasks = () =>
    api.db.selectFrom("task").select(["id", "desired"]).where("owner_id", "=", made.deployment.id).execute();
  await workUntil(made, gone, async () => (await tasks()).length === 2);
  expect(await tasks()).toEqual(
    expect.arrayContaining([
      { id: made.taskId, desired: "removed" },
      { id: expect.any(String), desired: "running" },
    ]),
  );
  expect(await rowOf(made.deployment)).toMatchObject({ status: "building", artifact_digest: null });
  expect((await rowOf(made.earlier)).build_key).toBeNull();
});
