import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { manifestSchema } from "@svc/proto";
import { createRegistry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openFleet } from "../../../fleet/cluster/testing.ts";
import { ownRegistry } from "../../../fleet/images/own.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { createListener } from "../../../stores/db/listen.ts";
import { type EtcdServer, startEtcd, testClient } from "../../../stores/etcd/testing.ts";
import { enqueue } from "../../../stores/work/queue.ts";
import { workRows } from "../../../stores/work/rows.ts";
import { startWorkers } from "../../../stores/work/worker.ts";
import { deploysOnPostgres } from "../postgres.ts";
import { deployWorker } from "../worker.ts";
import { createImageResolver, inside, waiters } from "./oci.ts";

let etcdServer: EtcdServer;
let api: TestApi;
beforeAll(async () => {
  [etcdServer, api] = await Promise.all([startEtcd(), testApi()]);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await etcdServer?.[Symbol.asyncDispose]();
});

/** A registry that takes every request, and never answers. */
async function silentRegistry() {
  let asked = 0;
  const server = createServer(() => {
    asked += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: () => asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("images of one account from a registry that does not answer leave room for other deployments", async () => {
  const { db, context } = api;
  const { log, secrets, config } = context;
  await using silent = await silentRegistry();
  await using registry = createRegistry(systemClock, { url: "http://127.0.0.1:9" });
  await using etcd = testClient(etcdServer.endpoint);
  await using fleet = await openFleet(etcd, { clock: systemClock, log });
  await using listener = createListener(systemClock, config.databaseUrl, log);

  const user = await api.newUser({ plan: { max_image_mb: 64, max_projects: 100 } });
  const image = {
    version: 2,
    name: "tide",
    type: "ociimage",
    port: 3000,
    image: { reference: "registry.test/tide:1" },
  };
  const deploying = async (owner: typeof user, canceled: boolean) => {
    const project = await api.newProject(owner, { type: "ociimage" });
    const deployment = await api.newDeployment(project, {
      status: "building",
      manifest: manifestSchema.parse(image),
      requested_reference: `${silent.host}/apps/tide:1`,
      cancel_requested_at: canceled ? new Date() : null,
    });
    await enqueue(db, { kind: "deploy", key: project.id, payload: { deploymentId: deployment.id } });
    return deployment;
  };
  const item = async ({ project_id }: { project_id: string }) =>
    db.selectFrom("work_item").select(["state", "attempt"]).where("key", "=", project_id).executeTakeFirstOrThrow();

  const rules = { allow: [silent.host], ownRegistry: ownRegistry("https://own.test") };
  const platforms = async () => [{ os: "linux", architecture: "amd64" }];
  const resolveImage = createImageResolver({
    ...{ clock: systemClock, random: systemRandom },
    ...{ db, secrets, log, registry, rules, platforms },
  });
  const handlers = {
    deploy: deployWorker({
      ...{ clock: systemClock, etcd, fleet, log },
      ...deploysOnPostgres({ clock: systemClock, db, registry, resolveImage }),
    }),
  };
  await using _workers = startWorkers({
    clock: systemClock,
    ...{ rows: workRows(db), listener, log, owner: "a", leaseMs: 10_000 },
    groups: [{ concurrency: inside.perKey + waiters.perKey + 1, handlers }],
  });

  const stuck: { project_id: string }[] = [];
  for (let count = 0; count < inside.perKey + waiters.perKey + 2; count += 1) stuck.push(await deploying(user, false));
  await expect.poll(silent.asked).toBe(inside.perKey);
  const other = await deploying(await api.newUser({ plan: { max_image_mb: 64 } }), true);
  await expect.poll(() => item(other)).toEqual({ state: "done", attempt: 1 });
  // Those that came too late wait in the queue, and that is no failure. They look for room now and then.
  const waiting = async () => (await Promise.all(stuck.map(item))).filter(({ state }) => state === "queued");
  await expect.poll(waiting).toEqual(Array(2).fill({ state: "queued", attempt: 0 }));
  expect(silent.asked()).toBe(inside.perKey);
  // Of another account there is room for an image as well.
  await deploying(await api.newUser({ plan: { max_image_mb: 64 } }), false);
  await expect.poll(silent.asked).toBe(inside.perKey + 1);
});
