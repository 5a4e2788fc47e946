import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lockWaits } from "../../stores/db/testing.ts";
import { campaign, type Leadership } from "../../stores/etcd/index.ts";
import { until } from "../../stores/etcd/testing.ts";
import { raiseFence } from "../cluster/fenced.ts";
import { keys, type ObservationValue, type RoutesMetaValue } from "../cluster/keys.ts";
import { startTestFleet, type TestFleet } from "../nodes/testing.ts";
import { publishOnce } from "./publisher.ts";
import { setChannelState } from "./store.ts";

let world: TestFleet;
beforeAll(async () => {
  world = await startTestFleet();
});
afterAll(() => world[Symbol.asyncDispose]());

async function asLeader(act: (leadership: Leadership) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  // A campaign goes on after a turn that failed; the test does not.
  const turn = Promise.withResolvers<void>();
  await campaign({
    ...{ etcd: world.etcd, key: keys.leader, id: "this-one", ttlMs: 60_000, signal: stop.signal },
    async lead(leadership) {
      await raiseFence(world.api.db, leadership.epoch);
      await act(leadership).then(turn.resolve, turn.reject);
      stop.abort();
    },
  });
  await turn.promise;
}

test("edges are told of a container only once Postgres knows where it is, for a restored etcd knows it from there", async () => {
  const { db } = world.api;
  const [host, upstream] = ["shop.svc.test", "127.0.1.1:40000"];
  const node = await world.newNode();
  const deployment = await world.newDeployment("running");
  await db.updateTable("deployment").set({ artifact_kind: "image" }).where("id", "=", deployment.id).execute();
  await db
    .insertInto("site_host")
    .values({ host, slug: "shop", project_id: deployment.project_id, channel: "production" })
    .execute();
  await setChannelState(db, deployment, { deploymentId: deployment.id, stopped: false });
  const taskId = await world.place(node.id, deployment, "serve");
  // A leader died between the two stores.
  await db.updateTable("task").set({ node_id: null }).where("id", "=", taskId).execute();
  const serving: ObservationValue = {
    ...{ placementId: taskId, epoch: 1, statusSeq: 9, observed: "running", health: "healthy", restartSeq: 0, upstream },
    ...{ failure: null, build: null, changedAt: new Date().toISOString() },
  };
  await world.put(keys.observation(node.id, taskId), serving);
  await until(
    "the view to show it",
    () => world.fleet.findPlacement(taskId) && world.fleet.observation(node.id, taskId)?.upstream === upstream,
  );
  const route = async () => {
    const entry = await world.etcd.get(keys.route(host));
    return entry === null ? null : JSON.parse(entry.value);
  };

  await asLeader(async (leadership) => {
    let publishing = Promise.resolve();
    await db.transaction().execute(async (tx) => {
      await sql`select from task where id = ${taskId} for update`.execute(tx);
      publishing = publishOnce({ ...world.deps, leadership, gateSecret: Buffer.alloc(32) });
      await until("the round to wait for the row", async () => (await lockWaits(db)) > 0);
      expect(await route()).toBeNull();
    });
    await publishing;
  });
  expect(await route()).toMatchObject({ proxy: { upstreams: [upstream] } });
  const row = await db.selectFrom("task").select("node_id").where("id", "=", taskId).executeTakeFirstOrThrow();
  expect(row.node_id).toBe(node.id);
});

test("a table without hosts says whether somebody took them away, or they are gone with their database", async () => {
  const { db } = world.api;
  const { project_id: id } = await world.newDeployment("running");
  const published = async (): Promise<RoutesMetaValue | null> => {
    const entry = await world.etcd.get(keys.routesMeta);
    return entry === null ? null : JSON.parse(entry.value);
  };
  await asLeader(async (leadership) => {
    /** Rounds until the published table is of so many hosts: a view may be behind at first. */
    const publish = (count: number) =>
      until(`a table of ${count} hosts`, async () => {
        await publishOnce({ ...world.deps, leadership, gateSecret: Buffer.alloc(32) });
        return (await published())?.count === count;
      });
    await db.deleteFrom("site_host").execute();
    const values = { host: "last.svc.test", slug: "last", project_id: id, channel: "production" as const };
    await db.insertInto("site_host").values(values).execute();
    await publish(1);
    expect((await published())?.emptied).toBeUndefined();

    await db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", id).execute();
    await publish(0);
    expect((await published())?.emptied).toBe(true);

    await db.updateTable("project").set({ deleting_at: null }).where("id", "=", id).execute();
    await publish(1);
    await sql`truncate project cascade`.execute(db);
    await publish(0);
    expect((await published())?.emptied).toBeUndefined();
  });
});
