import { manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { enqueue } from "../../stores/work/queue.ts";
import { startReplica } from "./testing/replica.ts";
import { createRandom, startVirtualFleet } from "./testing/virtual-fleet.ts";

let etcd: EtcdServer;
let api: TestApi;
beforeAll(async () => {
  [etcd, api] = await Promise.all([startEtcd(), testApi()]);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
});

test("a build that brings more than the plan has room for fails with what to do about it, and is not kept", async () => {
  const user = await api.newUser({ plan: { storage_mb: 0 } });
  const project = await api.newProject(user);
  await using client = testClient(etcd.endpoint);
  await using virtual = await startVirtualFleet({ db: api.db, etcd: client, random: createRandom(1), nodes: 1 });
  virtual.calm();
  const { databaseUrl, content } = api.context.config;
  const registry = { getManifest: async (_: string, digest: string) => ({ manifest: {}, digest }) as never };
  await using _replica = await startReplica({ databaseUrl, content, etcdEndpoint: etcd.endpoint, registry });
  const { id } = await api.newDeployment(project, {
    manifest: manifestSchema.parse({ version: 2, app: { name: "Shop", type: "ssr" }, start: { command: "node x.js" } }),
    ...{ source_repository: "svc/x/source", source_digest: `sha256:${"0".repeat(64)}`, source_size: 1 },
  });
  await enqueue(api.db, { kind: "deploy", key: project.id, payload: { deploymentId: id } });
  const row = await until(
    "the end of the deployment",
    async () => {
      const found = await api.db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      return found.finished_at === null ? null : found;
    },
    30_000,
  );
  expect(row).toMatchObject({ status: "failed", error_code: "ARTIFACT_TOO_LARGE", artifact_digest: null });
  expect(row.error).toMatch(/would keep 1 MiB of artifacts .* the plan allows 0 MiB\. Remove previews/);
}, 60_000);
