import { randomUUID } from "node:crypto";
import { copyVolume, databaseVolume } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { loadVolumesOfNodes } from "../../../fleet/database-volumes/facts.ts";
import { volumesToRemove } from "../../../fleet/database-volumes/rules.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { newBranch, newDroppedBranch } from "../testing/branch.ts";
import { forgetVolumes } from "./forget.ts";
import { placeVolume, retireVolume } from "./store.ts";

let api: TestApi;
let operator: TestUser;
let project: Project;
let node: { id: string; name: string };
beforeAll(async () => {
  api = await testApi();
  operator = await api.newUser({ admin: true });
});
afterAll(() => api?.[Symbol.asyncDispose]());
beforeEach(async () => {
  project = await api.newProject(operator);
  node = await api.db
    .insertInto("node")
    .values({ role: "node", name: `node-${randomUUID().slice(0, 8)}`, labels: "{}" })
    .returning(["id", "name"])
    .executeTakeFirstOrThrow();
});

const as = () => ({ session: operator.session });
const listed = async () => (await api.call("GET", "/admin/databases/volumes", as())).body;
const named = async (name: string) =>
  (await listed()).volumes.find((volume: { name: string }) => volume.name === name) ?? null;
const keep = (name: string) => api.call("POST", `/admin/databases/volumes/${name}/keep`, as());
const remove = (name: string, body: object = { confirm: true }) =>
  api.call("DELETE", `/admin/databases/volumes/${name}`, { ...as(), body });
const codeOf = ({ status, body }: Awaited<ReturnType<typeof keep>>) => [status, body.error?.code];
/** What the node is told to remove at this moment. */
const told = async () => volumesToRemove((await loadVolumesOfNodes(api.db, [node.id])).get(node.id) ?? []);
const age = (hours: number) =>
  sql`update database_volume set purge_at = purge_at - ${hours} * interval '1 hour' where node_id = ${node.id}`.execute(
    api.db,
  );

/** A branch on the node, whose first volume another took the place of. */
async function aReplaced(): Promise<string> {
  const databaseId = await newBranch(api, project);
  const replaced = { databaseId, generation: 1, nodeId: node.id };
  await retireVolume(api.db, replaced, { state: "salvage", keptHours: 168, bytes: 5 });
  await placeVolume(api.db, { ...replaced, generation: 2 });
  await api.db.updateTable("database").set({ generation: 2, node_id: node.id }).where("id", "=", databaseId).execute();
  return databaseId;
}
/** A copy of the branch that has ended, on the node. */
async function anEndedCopy(databaseId: string): Promise<string> {
  const id = randomUUID();
  await api.db
    .insertInto("database_copy")
    .values({
      ...{ id, database_id: databaseId, engine: "postgres", project_id: project.id, channel: "production" },
      ...{ generation: 1, node_id: node.id, state: "ended", ended_at: new Date() },
      purge_at: sql<Date>`now() + interval '7 days'`,
    })
    .execute();
  return id;
}

test("volumes that databases had are told of, with why they are there and when they go", async () => {
  const id = await newDroppedBranch(api, { id: project.id, nodeId: node.id });
  const replaced = await aReplaced();
  const copyId = await anEndedCopy(replaced);
  await api.db.insertInto("unknown_volume").values({ node_id: node.id, name: "svc-db-0123456789abcdef" }).execute();
  const of = { projectId: project.id, projectSlug: project.slug, channel: "production", engine: "postgres" };
  const common = { ...of, node, nodeLost: false, kept: false, purgeAt: expect.any(String) };
  const droppedVolume = { ...common, why: "dropped", databaseId: id, generation: 1, sizeBytes: 4_096, copyId: null };
  expect(await named(databaseVolume(id, 1))).toMatchObject(droppedVolume);
  expect(await named(databaseVolume(replaced, 1))).toMatchObject({ ...common, why: "replaced", sizeBytes: 5 });
  expect(await named(databaseVolume(replaced, 2))).toBeNull();
  expect(await named(copyVolume(copyId))).toMatchObject({ ...common, why: "copy", databaseId: replaced, copyId });
  const { unknown, dropped } = await listed();
  expect(unknown).toMatchObject([{ name: "svc-db-0123456789abcdef", node }]);
  expect(dropped).toMatchObject([{ id, ...of, droppedAt: expect.any(String) }]);
});

test("the volume of a machine that was declared lost is told of, and stays its database's own", async () => {
  const databaseId = await aReplaced();
  await api.db.updateTable("node").set({ lifecycle: "fenced" }).where("id", "=", node.id).execute();
  const own = databaseVolume(databaseId, 2);
  expect(await named(own)).toMatchObject({ why: "lost", nodeLost: true, purgeAt: null });
  expect(await named(databaseVolume(databaseId, 1))).toMatchObject({ why: "replaced", nodeLost: true });
  expect([codeOf(await keep(own)), codeOf(await remove(own))]).toEqual([
    [409, "CONFLICT"],
    [409, "CONFLICT"],
  ]);
});

test("one that is to be kept goes when somebody says so, and not before", async () => {
  const name = databaseVolume(await newDroppedBranch(api, { id: project.id, nodeId: node.id }), 1);
  expect(await keep(name)).toMatchObject({ status: 200, body: { name, kept: true } });
  await age(1_000);
  expect(await named(name)).toMatchObject({ kept: true, purgeAt: null });
  await forgetVolumes(api.db);
  expect([await told(), codeOf(await keep(name))]).toEqual([[], [200, undefined]]);
  expect(codeOf(await remove(name, {}))).toEqual([400, "DESTRUCTIVE_CONFIRMATION_REQUIRED"]);
  expect(await told()).toEqual([]);
  expect(await remove(name)).toMatchObject({ status: 200, body: { name, deleted: true } });
  expect(await told()).toEqual([name]);
});

test("one that is deleted goes at once, with the passwords that were kept for it", async () => {
  const id = await newDroppedBranch(api, { id: project.id, nodeId: node.id });
  await remove(databaseVolume(id, 1));
  expect(await told()).toEqual([databaseVolume(id, 1)]);
  const row = await api.db.selectFrom("dropped_database").selectAll().where("id", "=", id).executeTakeFirst();
  expect(row).toMatchObject({ admin_secret: null, secret: null });
  const back = await api.call("POST", `/admin/databases/${id}/undrop`, as());
  expect(codeOf(back)).toEqual([409, "CONFLICT"]);
});

test("a copy that has ended is kept and deleted as well, and one that goes on is not", async () => {
  const databaseId = await aReplaced();
  const copyId = await anEndedCopy(databaseId);
  expect(codeOf(await keep(copyVolume(copyId)))).toEqual([200, undefined]);
  await api.db
    .updateTable("database_copy")
    .set({ purge_at: new Date(0) })
    .where("id", "=", copyId)
    .execute();
  expect(await told()).toEqual([]);
  expect(codeOf(await remove(copyVolume(copyId)))).toEqual([200, undefined]);
  expect(await told()).toEqual([copyVolume(copyId)]);
  const following = randomUUID();
  await api.db
    .insertInto("database_copy")
    .values({
      ...{ id: following, database_id: databaseId, engine: "postgres", project_id: project.id, channel: "production" },
      ...{ generation: 2, node_id: node.id },
    })
    .execute();
  expect(codeOf(await remove(copyVolume(following)))).toEqual([409, "CONFLICT"]);
});

test("what a change may need is not deleted", async () => {
  const databaseId = await aReplaced();
  const name = databaseVolume(databaseId, 1);
  const change = { id: randomUUID(), database_id: databaseId, from_generation: 2, requested_by: operator.id } as const;
  await api.db
    .insertInto("database_change")
    .values({ ...change, kind: "move", state: "copying" })
    .execute();
  expect(codeOf(await remove(name))).toEqual([409, "CONFLICT"]);
  await api.db
    .updateTable("database_change")
    .set({ state: "done", ended_at: new Date() })
    .where("id", "=", change.id)
    .execute();
  expect(codeOf(await remove(name))).toEqual([200, undefined]);
});

test("what has had its time is not kept any more, and what nobody knows is left alone", async () => {
  const name = databaseVolume(await newDroppedBranch(api, { id: project.id, nodeId: node.id }), 1);
  await age(73);
  expect((await keep(name)).body.error).toMatchObject({
    code: "CONFLICT",
    message: expect.stringMatching(/time is over/),
  });
  const strange = "svc-db-00000000000000aa-3";
  await api.db.insertInto("unknown_volume").values({ node_id: node.id, name: strange }).execute();
  expect([codeOf(await keep(strange)), codeOf(await remove(strange))]).toEqual([
    [409, "CONFLICT"],
    [409, "CONFLICT"],
  ]);
  expect(codeOf(await keep("svc-db-00000000000000ab"))).toEqual([404, "NOT_FOUND"]);
  expect(codeOf(await remove("postgres"))).toEqual([404, "NOT_FOUND"]);
});
