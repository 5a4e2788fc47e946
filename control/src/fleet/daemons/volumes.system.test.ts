import { randomUUID } from "node:crypto";
import { copyVolume, databaseVolume } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Link } from "./start.ts";
import { aDaemon, anAgent, asNode, aWorld, type DaemonFiles, type World } from "./testing.ts";

let world: World;
let link: Link;
let node: DaemonFiles;
let [databaseId, copyId, projectId] = ["", "", ""];
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
beforeEach(async () => {
  node = await aDaemon(world, link, "node");
  [databaseId, copyId, projectId] = [randomUUID(), randomUUID(), randomUUID()];
});

const run = (query: ReturnType<typeof sql>) => query.execute(world.database.db);
/** A volume of the branch that is kept for so many minutes from now on. */
const aVolume = (generation: number, keptMinutes: number) =>
  run(sql`insert into database_volume (database_id, generation, node_id, state, purge_at)
    values (${databaseId}, ${generation}, ${node.id}, 'salvage', now() + ${keptMinutes} * interval '1 minute')`);
const aCopy = (keptMinutes: number) =>
  run(sql`insert into database_copy (id, database_id, engine, project_id, channel, generation, node_id, state, ended_at, purge_at)
    values (${copyId}, ${databaseId}, 'postgres', ${projectId}, 'production', 1, ${node.id}, 'ended', now(),
      now() + ${keptMinutes} * interval '1 minute')`);
const report = async (...names: string[]) => {
  using connection = asNode(link, node);
  await connection.node.reportDatabases({ volumes: { names } });
};
const goneVolumes = async () =>
  (
    await world.database.db
      .selectFrom("database_volume")
      .select("generation")
      .where("database_id", "=", databaseId)
      .where("gone_at", "is not", null)
      .execute()
  ).map(({ generation }) => generation);
const unknownVolumes = async () =>
  (await world.database.db.selectFrom("unknown_volume").select("name").where("node_id", "=", node.id).execute()).map(
    ({ name }) => name,
  );

test("a node is told what may go once its time and some minutes are over, and no more when it is gone", async () => {
  await using agent = await anAgent(link, node);
  await aVolume(1, -11);
  await aVolume(2, -9);
  await aVolume(3, 60);
  expect(await agent.next("volumesToRemove")).toMatchObject({ names: [databaseVolume(databaseId, 1)] });
  await aCopy(-11);
  expect(await agent.next("volumesToRemove")).toMatchObject({
    names: [databaseVolume(databaseId, 1), copyVolume(copyId)].sort(),
  });
  await report(databaseVolume(databaseId, 2), databaseVolume(databaseId, 3), copyVolume(copyId));
  expect(await agent.next("volumesToRemove")).toMatchObject({ names: [copyVolume(copyId)] });
  expect(await goneVolumes()).toEqual([1]);
  await report();
  expect(await agent.next("volumesToRemove")).toMatchObject({ names: [] });
  // The disk was away for a moment.
  await report(databaseVolume(databaseId, 1));
  expect(await agent.next("volumesToRemove")).toMatchObject({ names: [databaseVolume(databaseId, 1)] });
  expect(await goneVolumes()).toEqual([]);
});

test("a volume stays while a change is under way, and a copy while a server was made of it", async () => {
  await aVolume(1, -60);
  await aCopy(-60);
  const changeId = randomUUID();
  await run(sql`insert into database_change (id, database_id, kind, state, from_generation, requested_by)
    values (${changeId}, ${databaseId}, 'restore', 'restoring', 1, 'svc')`);
  const taskId = randomUUID();
  await run(sql`insert into task (id, owner_kind, owner_id, kind, channel, project_id, spec, spec_hash, memory_mb, cpu_millicores,
      pids_limit) values (${taskId}, 'database', ${databaseId}, 'database', 'production', ${projectId},
      ${JSON.stringify({ generation: 2, restore: { copyId, until: null } })}, 'h', 64, 10, 64)`);
  await using agent = await anAgent(link, node);
  await run(sql`update database_change set state = 'done', ended_at = now() where id = ${changeId}`);
  expect(await agent.next("volumesToRemove")).toMatchObject({ names: [databaseVolume(databaseId, 1)] });
  await run(sql`update task set reaped_at = now() where id = ${taskId}`);
  expect(await agent.next("volumesToRemove")).toMatchObject({
    names: [databaseVolume(databaseId, 1), copyVolume(copyId)].sort(),
  });
});

test("what a machine had that was declared lost is its next node's once it is back, and is kept for as long", async () => {
  await aVolume(1, 60);
  await aVolume(2, -60);
  await aCopy(60);
  const next = await aDaemon(world, link, "node");
  const names = [databaseVolume(databaseId, 1), databaseVolume(databaseId, 2), copyVolume(copyId)];
  const tell = async () => {
    using connection = asNode(link, next);
    await connection.node.reportDatabases({ volumes: { names } });
  };
  const places = async () => {
    const { rows } = await sql<{ node_id: string }>`
      select node_id from database_volume where database_id = ${databaseId}
      union select node_id from database_copy where id = ${copyId}`.execute(world.database.db);
    return rows.map(({ node_id }) => node_id);
  };
  const unknown = async () =>
    (await world.database.db.selectFrom("unknown_volume").select("name").where("node_id", "=", next.id).execute())
      .length;
  await tell();
  // As long as that node is there, whoever else says so is a stranger.
  expect([await places(), await unknown()]).toEqual([[node.id], 3]);
  await run(sql`update node set lifecycle = 'fenced' where id = ${node.id}`);
  await tell();
  expect([await places(), await unknown()]).toEqual([[next.id], 0]);
  await using agent = await anAgent(link, next);
  expect(await agent.next("volumesToRemove")).toMatchObject({ names: [databaseVolume(databaseId, 2)] });
});

test("a node that has nothing to remove is told nothing, whatever others have", async () => {
  await aVolume(1, -60);
  const other = await aDaemon(world, link, "node");
  await using agent = await anAgent(link, other);
  await using first = await anAgent(link, node);
  await first.next("volumesToRemove");
  expect(agent.waiting("volumesToRemove")).toBe(0);
});

test("volumes that nobody knows are noted, as long as they are there, and never told to go", async () => {
  await aVolume(2, 60);
  const stranger = databaseVolume(randomUUID(), 1);
  await report(stranger, databaseVolume(databaseId, 2), "postgres-data");
  expect(await unknownVolumes()).toEqual([stranger]);
  // Which node has the volume of a branch that is being made is noted once it is there.
  await run(sql`insert into auth."user" (id, name, email, "emailVerified")
    values (${projectId}, 'Ada', ${`${projectId}@svc.test`}, true)`);
  await run(sql`insert into project (id, owner_id, name, slug, type)
    values (${projectId}, ${projectId}, 'Shop', ${`shop-${projectId}`}, 'ssr')`);
  await run(sql`insert into database (id, project_id, channel, engine, admin_secret, secret)
    values (${copyId}, ${projectId}, 'production', 'postgres', '', '')`);
  await report(databaseVolume(copyId, 1), databaseVolume(databaseId, 2));
  expect(await unknownVolumes()).toEqual([]);
});

test("a node that could not tell of its volumes has lost none", async () => {
  await aVolume(1, -60);
  using connection = asNode(link, node);
  await connection.node.reportDatabases({});
  expect(await goneVolumes()).toEqual([]);
  const names = Array.from({ length: 20_001 }, (_, at) => `svc-db-${String(at).padStart(16, "0")}`);
  await expect(connection.node.reportDatabases({ volumes: { names } })).rejects.toThrow(/at most 20000 volumes/);
});
