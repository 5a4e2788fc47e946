import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { endCopies } from "../copies/store.ts";
import { forgetVolumes } from "./forget.ts";

let api: TestApi;
let nodeId = "";
beforeAll(async () => {
  api = await testApi();
  const node = await api.db
    .insertInto("node")
    .values({ role: "node", name: "machine-1", labels: "{}" })
    .returning("id")
    .executeTakeFirstOrThrow();
  nodeId = node.id;
});
afterAll(() => api?.[Symbol.asyncDispose]());

const daysAgo = (days: number) => sql<Date>`now() - ${days} * interval '1 day'`;

/** Volumes of a branch that was dropped, and the branch. Returns its id. */
async function dropped(purgeDaysAgo: number, goneDaysAgo: number | null, at = nodeId): Promise<string> {
  const id = randomUUID();
  const purge_at = daysAgo(purgeDaysAgo);
  await api.db
    .insertInto("database_volume")
    .values({
      ...{ database_id: id, generation: 1, node_id: at, state: "dropped", purge_at },
      gone_at: goneDaysAgo === null ? null : daysAgo(goneDaysAgo),
    })
    .execute();
  await api.db
    .insertInto("dropped_database")
    .values({
      ...{ id, project_id: randomUUID(), owner_id: randomUUID(), channel: "dev", engine: "postgres" },
      ...{ node_id: at, purge_at },
    })
    .execute();
  return id;
}
const isKnown = async (id: string) =>
  (await api.db.selectFrom("database_volume").select("generation").where("database_id", "=", id).execute()).length > 0;
const isRemembered = async (id: string) =>
  (await api.db.selectFrom("dropped_database").select("id").where("id", "=", id).execute()).length > 0;

test.each([
  { when: "is gone for a week", purge: 9, gone: 8, isKept: false },
  { when: "is gone since yesterday", purge: 9, gone: 1, isKept: true },
  { when: "should be gone, and is not", purge: 90, gone: null, isKept: true },
  { when: "is kept for a day more", purge: -1, gone: null, isKept: true },
])("a volume that $when is known: $isKept", async ({ purge, gone, isKept }) => {
  const id = await dropped(purge, gone);
  expect(await forgetVolumes(api.db)).toBe(isKept ? 0 : 1);
  expect([await isKnown(id), await isRemembered(id)]).toEqual([isKept, isKept]);
});

test("what was on a machine that is no more is forgotten when its time is over", async () => {
  const [over, kept] = [await dropped(1, null, randomUUID()), await dropped(-1, null, randomUUID())];
  expect(await forgetVolumes(api.db)).toBe(1);
  expect([await isKnown(over), await isKnown(kept)]).toEqual([false, true]);
});

test("a copy whose time is over, and may be going, is not kept for longer when its branch is dropped", async () => {
  const databaseId = randomUUID();
  const aCopy = (days: number) =>
    api.db
      .insertInto("database_copy")
      .values({
        ...{ id: randomUUID(), database_id: databaseId, engine: "postgres", project_id: randomUUID(), channel: "dev" },
        ...{ generation: 1, node_id: nodeId, state: "ended", ended_at: daysAgo(8), purge_at: daysAgo(days) },
      })
      .returning("id")
      .executeTakeFirstOrThrow();
  const [over, lasting] = [await aCopy(1), await aCopy(-1)];
  await endCopies(api.db, databaseId, { keptHours: 72 });
  const copies = await api.db
    .selectFrom("database_copy")
    .select(["id", sql<number>`extract(epoch from purge_at - now()) / 3600`.as("hours")])
    .where("database_id", "=", databaseId)
    .execute();
  const hoursOf = ({ id }: { id: string }) => Number(copies.find((copy) => copy.id === id)?.hours);
  expect(hoursOf(over)).toBeLessThan(0);
  expect(hoursOf(lasting)).toBeGreaterThan(71);
});
