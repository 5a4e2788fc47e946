import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createCollector } from "../../../fleet/artifacts/collect.ts";
import { openFleet } from "../../../fleet/cluster/testing.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import { createListener } from "../../../stores/db/listen.ts";
import { createDb } from "../../../stores/db/pool.ts";
import { startEtcd, testClient, until } from "../../../stores/etcd/testing.ts";
import { workRows } from "../../../stores/work/rows.ts";
import { startWorkers } from "../../../stores/work/worker.ts";
import { teardownWorker } from "../../projects/teardown/worker.ts";
import { deleteUserKind } from "./deletion/request.ts";
import { deleteUserWorker } from "./deletion/worker.ts";

// A deletion from its request to its end, by the queue's own workers, while servers come and go.

const log = createLog("silent");
const stack = new AsyncDisposableStack();
let api: TestApi;
let admin: TestUser;
let etcdEndpoint: string;
beforeAll(async () => {
  const etcdServer = stack.use(await startEtcd());
  etcdEndpoint = etcdServer.endpoint;
  api = stack.use(await testApi());
  admin = await api.newUser({ admin: true });
});
afterAll(() => stack.disposeAsync());

/** The part of a control server that does the work; cut off from the database it never tells how its work ended. */
async function server(owner: string) {
  const parts = new AsyncDisposableStack();
  const { databaseUrl } = api.context.config;
  const db = createDb({ url: databaseUrl, maxConnections: 6 });
  const etcd = parts.use(testClient(etcdEndpoint));
  const fleet = parts.use(await openFleet(etcd, { clock: systemClock, log }));
  const registry = parts.use(createRegistry(systemClock, { url: "http://127.0.0.1:9" }));
  const collector = createCollector({ clock: systemClock, db, registry, log });
  const listener = parts.use(createListener(systemClock, databaseUrl, log));
  parts.use(
    startWorkers({
      clock: systemClock,
      ...{ rows: workRows(db), listener, log, owner, leaseMs: 1_000 },
      groups: [
        {
          concurrency: 4,
          handlers: {
            teardown: teardownWorker({ clock: systemClock, db, etcd, fleet, collector, log }),
            [deleteUserKind]: deleteUserWorker({ db, registry, log, graceMs: 0 }),
          },
        },
      ],
    }),
  );
  let killed = false;
  const kill = async () => {
    if (killed) return;
    killed = true;
    await db.destroy();
    await parts.disposeAsync();
  };
  return { kill, [Symbol.asyncDispose]: kill };
}

test("servers that are killed in between, one after another, lose nothing of a deletion", async () => {
  const users = await Promise.all([1, 2, 3].map(() => api.newUser()));
  for (const user of users) for (let count = 0; count < 4; count += 1) await api.newProject(user);
  const ids = users.map(({ id }) => id);
  const left = async () => (await api.db.selectFrom("auth.user").select("id").where("id", "in", ids).execute()).length;
  for (const id of ids) {
    const { status } = await api.call("DELETE", `/admin/users/${id}`, { session: admin.session });
    expect(status).toBe(200);
  }
  for (let life = 1; life <= 4; life += 1) {
    const owner = `mortal-${life}`;
    await using mortal = await server(owner);
    const took = () => api.db.selectFrom("work_item").select("id").where("lease_owner", "=", owner).executeTakeFirst();
    await until("it is at work", async () => (await took()) ?? (await left()) === 0);
    await mortal.kill();
  }
  await using _steady = await server("steady");
  await until("all users are gone", async () => (await left()) === 0);
  const projects = await api.db.selectFrom("project").select("id").execute();
  expect(projects).toEqual([]);
  const failed = await api.db.selectFrom("work_item").select("error").where("state", "=", "failed").execute();
  expect(failed).toEqual([]);
});
