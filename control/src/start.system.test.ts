import { randomBytes, randomUUID } from "node:crypto";
import { createRegistry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConfig } from "./config.ts";
import { createCollector } from "./fleet/artifacts/collect.ts";
import { openFleet } from "./fleet/cluster/testing.ts";
import { tokenKeySettings } from "./fleet/registry-tokens/testing.ts";
import { createLog } from "./log.ts";
import type { Config } from "./settings/settings.ts";
import { start, workGroups } from "./start.ts";
import { type TestDatabase, testDatabase } from "./stores/db/testing.ts";
import { createResolver } from "./stores/dns/resolver.ts";
import { createEtcd } from "./stores/etcd/index.ts";
import { type EtcdServer, startEtcd } from "./stores/etcd/testing.ts";
import { createSecrets } from "./stores/secrets.ts";
import { enqueue } from "./stores/work/queue.ts";
import { notResumed, resumedKinds } from "./stores/work/resume.ts";
import { createSqlRunner } from "./tenants/databases/sql/runner.ts";

let database: TestDatabase;
let etcd: EtcdServer;
beforeAll(async () => {
  [database, etcd] = await Promise.all([testDatabase(), startEtcd()]);
});
afterAll(async () => {
  await etcd[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const masterKey = randomBytes(32).toString("base64");
const config = (): Config =>
  readConfig(new Date(), {
    ...tokenKeySettings,
    SVC_DATABASE_URL: database.url,
    SVC_ETCD_ENDPOINTS: etcd.endpoint,
    SVC_API_LISTEN: "127.0.0.1:0",
    SVC_LINK_LISTEN: "127.0.0.1:0",
    SVC_ENROLL_LISTEN: "127.0.0.1:0",
    SVC_MASTER_KEY: masterKey,
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  });

test("two replicas serve the same cluster, and one goes on when the other stops", async () => {
  const shared = config();
  const log = createLog("silent");
  await using first = await start(shared, { log });
  const second = await start(shared, { log });
  const ready = async (port: number) => (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
  expect(await ready(first.apiPort)).toBe(200);
  expect(await ready(second.apiPort)).toBe(200);
  await second[Symbol.asyncDispose]();
  expect(await ready(first.apiPort)).toBe(200);
  await expect(ready(second.apiPort)).rejects.toThrow();
});

test("a step of a newer version leaves a replica that runs alone, and keeps one of this version from starting", async () => {
  const { db } = database;
  const log = createLog("silent");
  await using running = await start(config(), { log });
  const name = "0002-expand-later.sql";
  await db.insertInto("schema_migration").values({ name, hash: "later" }).execute();
  try {
    await expect(start(config(), { log })).rejects.toThrow(`does not know: ${name}`);
    expect((await fetch(`http://127.0.0.1:${running.apiPort}/readyz`)).status).toBe(200);
  } finally {
    await db.deleteFrom("schema_migration").where("name", "=", name).execute();
  }
});

test("a flood of changed limits holds up no other work", async () => {
  const { db } = database;
  await using _server = await start(config(), { log: createLog("silent") });
  const statesOf = async (kind: string) =>
    (await db.selectFrom("work_item").select("state").where("kind", "=", kind).execute()).map(({ state }) => state);
  const [ownerId, count] = [randomUUID(), 40];
  await sql`insert into auth."user" (id, name, email, "emailVerified")
    values (${ownerId}, 'Ada', 'ada@svc.test', true)`.execute(db);
  await db.transaction().execute(async (tx) => {
    // None of them comes to its end as long as somebody changes their owner.
    await sql`select from auth."user" where id = ${ownerId} for no key update`.execute(tx);
    await sql`with made as (
        insert into project (owner_id, name, slug, type)
        select ${ownerId}, 'Shop', 'flood-' || n, 'ssr' from generate_series(1, ${count}::int) as n returning id)
      insert into work_item (kind, key, payload)
      select 'apply-limits', 'limits/' || id, jsonb_build_object('projectId', id) from made`.execute(db);
    await expect.poll(async () => (await statesOf("apply-limits")).includes("running")).toBe(true);
    await enqueue(db, { kind: "retire", key: "retire/flood", payload: { deploymentId: randomUUID() } });
    await expect.poll(() => statesOf("retire")).toEqual(["done"]);
    expect((await statesOf("apply-limits")).filter((state) => state === "running").length).toBeLessThanOrEqual(2);
  });
  await expect
    .poll(async () => new Set(await statesOf("apply-limits")), { timeout: 20_000 })
    .toEqual(new Set(["done"]));
});

test("every kind of work is taken up again after it was given up, or has a reason why not, and one place where it is done", async () => {
  const settings = config();
  const log = createLog("silent");
  const { db } = database;
  await using stack = new AsyncDisposableStack();
  const connection = stack.use(
    createEtcd({ clock: systemClock, random: systemRandom, endpoints: [etcd.endpoint], log }),
  );
  const fleet = stack.use(await openFleet(connection, { clock: systemClock, log }));
  const registry = stack.use(createRegistry(systemClock, settings.registry));
  const groups = workGroups({
    ...{ clock: systemClock, random: systemRandom, mailer: null },
    ...{ bucket: null, openCopyFiles: () => Promise.reject(new Error("no node")) },
    openLine: () => Promise.reject(new Error("no node")),
    workOnCertificates: async () => ({ state: "done" }),
    sql: stack.use(createSqlRunner({ clock: systemClock, log })),
    resolver: createResolver({ clock: systemClock, servers: [], timeoutMs: 1_000 }),
    ...{ config: settings, db, etcd: connection, fleet, registry, log },
    collector: createCollector({ clock: systemClock, db, registry, log }),
    secrets: createSecrets(settings.masterKeys),
  });
  const done = groups.flatMap(({ handlers }) => Object.keys(handlers));
  expect(done.toSorted()).toEqual([...resumedKinds, ...Object.keys(notResumed)].toSorted());
});

test("a stranger learns nothing from the API", async () => {
  await using server = await start(config(), { log: createLog("silent") });
  const reply = await fetch(`http://127.0.0.1:${server.apiPort}/api/v1/projects`);
  expect(reply.status).toBe(401);
  expect(await reply.json()).toMatchObject({ ok: false, error: { code: "UNAUTHORIZED" } });
});

test("a replica with another master key refuses to start instead of damaging anything", async () => {
  await using _ = await start(config(), { log: createLog("silent") });
  const other: Config = { ...config(), masterKeys: [randomBytes(32)] };
  await expect(start(other, { log: createLog("silent") })).rejects.toThrow("key that is not configured");
});
