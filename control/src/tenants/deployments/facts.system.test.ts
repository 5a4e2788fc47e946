import { manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import type { ObservationValue, PlacementValue } from "../../fleet/cluster/keys.ts";
import { serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import type { TestApi } from "../../http/testing.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { readDeployFacts } from "./facts.ts";
import { deployRows } from "./rows.ts";
import { nextDeployStep } from "./steps.ts";
import { type TestCluster, testCluster } from "./testing/cluster.ts";

let cluster: TestCluster;
let etcd: Etcd;
let fleet: Fleet;
let api: TestApi;
beforeAll(async () => {
  cluster = await testCluster();
  ({ etcd, fleet, api } = cluster);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const artifact = {
  ...{ artifact_kind: "image", artifact_repository: "svc/x/app", artifact_digest: `sha256:${"a".repeat(64)}` },
} satisfies Partial<Deployment>;

test("a release command that no node takes knows of what drains in its project", async () => {
  const user = await api.newUser();
  const project = await api.newProject(user, { type: "ssr" });
  const manifest = manifestSchema.parse({
    ...{ version: 2, app: { name: "Shop", type: "ssr" }, start: { command: "node server.js" } },
    release: { command: "node migrate.js" },
  });
  const replaced = await api.newDeployment(project, { ...artifact, manifest, status: "superseded" });
  const task = serveTask(replaced, await planOfUser(api.db, user.id), manifest, null);
  const taskId = await insertTask(api.db, replaced, task, { replica: 0 });
  const draining = async (releaseStatus: Deployment["release_status"]) => {
    const values = { ...artifact, manifest, status: "deploying", release_status: releaseStatus } as const;
    const { id } = await api.newDeployment(project, values);
    return (await readDeployFacts({ rows: deployRows(api.db), etcd, fleet }, id, new Date()))?.facts.draining;
  };
  expect(await draining("pending")).toBe(false);
  const change = { desired: "removed", drain_seconds: 3_600 } as const;
  await api.db.updateTable("task").set(change).where("id", "=", taskId).execute();
  expect(await draining("pending")).toBe(true);
  expect(await draining("succeeded")).toBe(false);
});

test("what the fleet says later is known without another look at the database", async () => {
  const user = await api.newUser();
  const project = await api.newProject(user, { type: "ssr" });
  const app = { name: "Shop", type: "ssr" };
  const manifest = manifestSchema.parse({ version: 2, app, start: { command: "node server.js" } });
  const values = { ...artifact, manifest, status: "deploying", release_status: "not_configured" } as const;
  const deployment = await api.newDeployment(project, values);
  const task = serveTask(deployment, await planOfUser(api.db, user.id), manifest, null);
  const taskId = await insertTask(api.db, deployment, task, { replica: 0 });
  let said: ObservationValue | null = null;
  const told: Fleet = {
    ...fleet,
    findPlacement: () => ({ nodeId: "11111111-2222-4333-8444-555555555555", placement: {} as PlacementValue }),
    observation: () => said,
  };
  const at = await readDeployFacts({ rows: deployRows(api.db), etcd, fleet: told }, deployment.id, new Date());
  if (at === null) throw new Error("the deployment is gone");
  expect(nextDeployStep(at.facts)).toMatchObject({ do: "wait", for: "the app to answer" });
  expect(nextDeployStep(at.factsNow())).toMatchObject({ do: "wait" });
  said = {
    placementId: taskId,
    epoch: 1,
    statusSeq: 1,
    observed: "running",
    health: "healthy",
    restartSeq: 0,
    upstream: "10.0.0.1:8080",
    failure: null,
    build: null,
    changedAt: new Date().toISOString(),
  };
  expect(nextDeployStep(at.factsNow())).toEqual({ do: "activate" });
  expect(nextDeployStep(at.facts)).toMatchObject({ do: "wait" });
});
