import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { seedPlans } from "../../stores/db/seed.ts";
import { nodeTopic } from "../cluster/topics.ts";
import type { Link } from "./start.ts";
import { aDaemon, anAgent, asNode, aWorld, type DaemonFiles, until, type World } from "./testing.ts";

let world: World;
let link: Link;
let node: DaemonFiles;
let databaseId = "";
let projectId = "";
let ownerId = "";
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
  await seedPlans(world.database.db);
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
beforeEach(async () => {
  node = await aDaemon(world, link, "node");
  [databaseId, projectId, ownerId] = [randomUUID(), randomUUID(), randomUUID()];
  const { db } = world.database;
  await sql`insert into auth."user" (id, name, email, "emailVerified")
    values (${ownerId}, 'Ada', ${`${ownerId}@svc.test`}, true)`.execute(db);
  await sql`insert into project (id, owner_id, name, slug, type)
    values (${projectId}, ${ownerId}, 'Shop', ${`shop-${projectId}`}, 'ssr')`.execute(db);
  await sql`insert into database (id, project_id, channel, engine, admin_secret, secret)
    values (${databaseId}, ${projectId}, 'production', 'postgres', '', '')`.execute(db);
});

const branch = (change: Record<string, unknown>) =>
  world.database.db.updateTable("database").set(change).where("id", "=", databaseId).execute();
const aServer = (nodeId: string | null) =>
  sql`insert into task (id, owner_kind, owner_id, kind, channel, project_id, spec, spec_hash, memory_mb, cpu_millicores,
      pids_limit, node_id)
    values (${randomUUID()}, 'database', ${databaseId}, 'database', 'production', ${projectId}, '{}', 'h', 64, 10, 64, ${nodeId})`.execute(
    world.database.db,
  );

test("a node is told what it may reach, from nothing on, and again when that changes", async () => {
  await using agent = await anAgent(link, node);
  expect(await agent.next("databaseTable")).toMatchObject({ entries: [] });
  // A container of the channel is placed there, and then the branch gets its server, on the same node.
  await world.place(node.id, randomUUID(), { projectId, channel: "production" });
  await aServer(node.id);
  expect(await agent.next("databaseTable")).toMatchObject({
    entries: [
      { databaseId, projectId, channel: "production", engine: "postgres", nodeId: node.id, address: node.address },
    ],
  });
  await branch({ status: "dropping" });
  expect(await agent.next("databaseTable")).toMatchObject({ entries: [{ databaseId, state: 3 }] });
  await world.database.db.deleteFrom("database").where("id", "=", databaseId).execute();
  expect(await agent.next("databaseTable")).toMatchObject({ entries: [] });
});

test("a node that has nothing to do with a branch is not told of it", async () => {
  await using agent = await anAgent(link, node);
  await agent.next("databaseTable");
  const other = await aDaemon(world, link, "node");
  await using second = await anAgent(link, other);
  await second.next("databaseTable");
  await world.place(other.id, randomUUID(), { projectId, channel: "production" });
  await aServer(node.id);
  await branch({ node_id: node.id });
  await second.next("databaseTable");
  await agent.next("databaseTable");
  await using third = await anAgent(link, await aDaemon(world, link, "node"));
  expect(await third.next("databaseTable")).toMatchObject({ entries: [] });
});

test("a node is told of the branch whose first copy it keeps, until that ends", async () => {
  await using agent = await anAgent(link, node);
  await agent.next("databaseTable");
  const home = await aDaemon(world, link, "node");
  await aServer(home.id);
  await branch({ node_id: home.id });
  const { db } = world.database;
  const [copyId, nextCopyId] = [randomUUID(), randomUUID()];
  const begin = (id: string) =>
    sql`insert into database_copy (id, database_id, engine, project_id, channel, generation, node_id)
      values (${id}, ${databaseId}, 'postgres', ${projectId}, 'production', 1, ${node.id})`.execute(db);
  await begin(copyId);
  expect(await agent.next("databaseTable")).toMatchObject({
    entries: [{ databaseId, copies: [{ copyId, nodeId: node.id }], state: 1 }],
  });
  await sql`insert into database_change (id, database_id, kind, state, from_generation, requested_by)
    values (${randomUUID()}, ${databaseId}, 'move', 'freezing', 1, 'svc')`.execute(db);
  expect(await agent.next("databaseTable")).toMatchObject({ entries: [{ databaseId, state: 2 }] });
  await sql`update database_change set state = 'failed', problem = 'it was cancelled', ended_at = now()
    where database_id = ${databaseId}`.execute(db);
  expect(await agent.next("databaseTable")).toMatchObject({ entries: [{ databaseId, state: 1 }] });
  await sql`update database_copy set state = 'ended', ended_at = now(), purge_at = now()
    where id = ${copyId}`.execute(db);
  expect(await agent.next("databaseTable")).toMatchObject({ entries: [] });
  // Nothing else has the table looked at by now.
  await begin(nextCopyId);
  expect(await agent.next("databaseTable")).toMatchObject({
    entries: [{ databaseId, copies: [{ copyId: nextCopyId }] }],
  });
});

test("a node is told which machines are gone, at once, for as long as their certificates may count", async () => {
  const { db } = world.database;
  const [fenced, removed, over] = [
    await aDaemon(world, link, "node"),
    await aDaemon(world, link, "edge"),
    await aDaemon(world, link, "node"),
  ];
  const dayMs = 86_400_000;
  const set = (id: string, lifecycle: "fenced" | "removed", daysLeft: number) =>
    db
      .updateTable("node")
      .set({ lifecycle, certificate_expires_at: new Date(Date.now() + daysLeft * dayMs) })
      .where("id", "=", id)
      .execute();
  await set(over.id, "fenced", -2);
  await using agent = await anAgent(link, node);
  expect(await agent.next("databaseTable")).toMatchObject({ goneIds: [] });
  await set(removed.id, "removed", -0.5);
  await set(fenced.id, "fenced", 30);
  await sql`select pg_notify(${nodeTopic}, '')`.execute(db);
  expect(await agent.next("databaseTable")).toMatchObject({ goneIds: [fenced.id, removed.id] });
});

test("what a node reports of its databases is stored, and what looks odd has them looked at", async () => {
  const { db } = world.database;
  await branch({ node_id: node.id });
  using connection = asNode(link, node);
  const at = new Date().toISOString();
  const sample = { databaseId, epoch: 1n, at, volumeBytes: 1_000n, connections: 3, failedLogins: 0n };
  await connection.node.reportDatabases({ samples: [sample] });
  const measured = await db.selectFrom("database").selectAll().where("id", "=", databaseId).executeTakeFirstOrThrow();
  expect(measured).toMatchObject({ connections: 3, volume_bytes: 1_000 });
  const checks = () =>
    db.selectFrom("work_item").select("key").where("key", "=", `database-check/${databaseId}`).execute();
  expect(await checks()).toEqual([]);
  await connection.node.reportDatabases({ samples: [{ ...sample, failedLogins: 2n }] });
  await connection.node.reportDatabases({ samples: [{ ...sample, failedLogins: 2n }] });
  await until("it to be looked at", async () => (await checks()).length === 1);
  // Another node counts logins of its own containers, and nothing else of it.
  const other = await aDaemon(world, link, "node");
  using elsewhere = asNode(link, other);
  await elsewhere.node.reportDatabases({ samples: [{ ...sample, connections: 99 }] });
  expect(await db.selectFrom("database").select("connections").where("id", "=", databaseId).execute()).toEqual([
    { connections: 3 },
  ]);
});
