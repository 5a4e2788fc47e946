import { seededNumbers } from "@svc/runtime/testing/random";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lockWaits } from "../../stores/db/testing.ts";
import { campaign, type Leadership } from "../../stores/etcd/index.ts";
import { until } from "../../stores/etcd/testing.ts";
import { raiseFence } from "../cluster/fenced.ts";
import { keys, type ObservationValue, type RoutesMetaValue } from "../cluster/keys.ts";
import { startTestFleet, type TestFleet } from "../nodes/testing.ts";
import { clean, dirtyByKeys, dirtyByNotice } from "./dirty.ts";
import { readHostFacts } from "./facts.ts";
import { createPublisher, publishOnce } from "./publisher.ts";
import { routeRows } from "./rows.ts";
import { setChannelState } from "./store.ts";
import { tableChange } from "./table.ts";

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
      publishing = publishOnce({
        ...world.deps,
        rows: routeRows(world.api.db),
        leadership,
        gateSecret: Buffer.alloc(32),
      });
      await until("the round to wait for the row", async () => (await lockWaits(db)) > 0);
      expect(await route()).toBeNull();
    });
    await publishing;
  });
  expect(await route()).toMatchObject({ proxy: { upstreams: [upstream] } });
  const row = await db.selectFrom("task").select("node_id").where("id", "=", taskId).executeTakeFirstOrThrow();
  expect(row.node_id).toBe(node.id);
});

test.each([1, 2, 3])(
  "sites that are published one by one are as a look at all would have them (sequence %i)",
  async (seed) => {
    const { db } = world.api;
    const { fleet } = world;
    const gateSecret = Buffer.alloc(32);
    const chance = seededNumbers(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(chance() * from.length)] as T;
    const node = await world.newNode();
    const sites = await Promise.all(
      [0, 1, 2].map(async (n) => {
        const deployment = await world.newDeployment("running");
        await db.updateTable("deployment").set({ artifact_kind: "image" }).where("id", "=", deployment.id).execute();
        const taskId = await world.place(node.id, deployment, "serve");
        const hosts = [`own-${n}.seed${seed}.test`, `other-${n}.seed${seed}.test`];
        return { deployment, projectId: deployment.project_id, taskId, hosts };
      }),
    );
    // It stays, so that the table is never empty.
    const anchor = await world.newDeployment("running");
    const addHost = async (projectId: string, host: string) => {
      const values = { host, slug: host, project_id: projectId, channel: "production" as const };
      await db.insertInto("site_host").values(values).execute();
    };
    await addHost(anchor.project_id, `anchor.seed${seed}.test`);
    let statusSeq = 0;

    await asLeader(async (leadership) => {
      let asked = 0;
      const deps = { ...world.deps, rows: routeRows(world.api.db), leadership, gateSecret };
      const publisher = createPublisher(deps, () => {
        asked += 1;
      });
      const viewIsNew = () =>
        until("the view to show the newest table", async () => {
          const meta = await world.etcd.get(keys.routesMeta);
          return (meta?.modRevision ?? null) === fleet.routesMeta().modRevision;
        });
      await until("a look at everything that has the newest view", async () => {
        await publisher.publishAll();
        await viewIsNew();
        asked = 0;
        await publisher.publishNoted();
        return asked === 0;
      });

      for (let step = 0; step < 25; step += 1) {
        const { deployment, projectId, taskId, hosts } = pick(sites);
        const host = pick(hosts);
        const note = (id: string) => publisher.note(dirtyByNotice(id));
        switch (pick(["serve", "stop", "host", "move", "password", "suspend", "observe", "observe"] as const)) {
          case "serve":
            await setChannelState(db, deployment, { deploymentId: deployment.id, stopped: false });
            note(projectId);
            break;
          case "stop":
            await setChannelState(db, deployment, { deploymentId: pick([null, deployment.id]), stopped: true });
            note(projectId);
            break;
          case "host": {
            const { numDeletedRows } = await db
              .deleteFrom("site_host")
              .where("host", "=", host)
              .executeTakeFirstOrThrow();
            if (numDeletedRows === 0n) await addHost(projectId, host);
            // Whose it was so far is not told: the table says it.
            const was = fleet.route(host)?.projectId ?? projectId;
            note(numDeletedRows === 0n ? projectId : was);
            break;
          }
          case "move": {
            const to = pick(sites).projectId;
            await db.updateTable("site_host").set({ project_id: to }).where("host", "=", host).execute();
            note(to);
            break;
          }
          case "password":
            await db
              .updateTable("project")
              .set({ password_hash: pick([null, "$2b$one", "$2b$other"]) })
              .where("id", "=", projectId)
              .execute();
            note(projectId);
            break;
          case "suspend":
            await db
              .updateTable("project")
              .set({ suspended_at: pick([null, new Date()]) })
              .where("id", "=", projectId)
              .execute();
            note(projectId);
            break;
          case "observe": {
            statusSeq += 1;
            const value: ObservationValue = {
              ...{ placementId: taskId, epoch: 1, statusSeq, observed: pick(["running", "failed"] as const) },
              ...{
                health: pick(["healthy", "unhealthy"] as const),
                restartSeq: 0,
                upstream: `127.0.1.1:${40_000 + step}`,
              },
              ...{ failure: null, build: null, changedAt: new Date().toISOString() },
            };
            const key = keys.observation(node.id, taskId);
            await world.put(key, value);
            await until("the view to show it", () => fleet.observation(node.id, taskId)?.statusSeq === statusSeq);
            publisher.note(dirtyByKeys([{ key }]));
          }
        }
        await publisher.publishNoted();
        await viewIsNew();
        const { facts } = await readHostFacts(routeRows(db), fleet, gateSecret);
        expect(tableChange(fleet.routeTable(), facts)).toEqual({ upserts: [], removedHosts: [] });
      }
      expect(asked).toBe(0);

      publisher.note({ ...clean, everything: true });
      expect(asked).toBe(1);
      // What another one published is no ground for a look at single sites.
      await publishOnce(deps);
      await world.put(keys.routesMeta, { generation: fleet.routesMeta().generation + 1, digest: "", count: 1 });
      await viewIsNew();
      await publisher.publishNoted();
      expect(asked).toBe(2);
    });
  },
);

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
        await publishOnce({ ...world.deps, rows: routeRows(world.api.db), leadership, gateSecret: Buffer.alloc(32) });
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
