import { manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import type { TestApi } from "../../http/testing.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { readDeployFacts } from "./facts.ts";
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
    return (await readDeployFacts({ db: api.db, etcd, fleet }, id, new Date()))?.facts.draining;
  };
  expect(await draining("pending")).toBe(false);
  const change = { desired: "removed", drain_seconds: 3_600 } as const;
  await api.db.updateTable("task").set(change).where("id", "=", taskId).execute();
  expect(await draining("pending")).toBe(true);
  expect(await draining("succeeded")).toBe(false);
});
