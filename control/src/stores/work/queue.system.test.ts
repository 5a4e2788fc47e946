import { randomUUID } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createListener } from "../db/listen.ts";
import { type TestDatabase, testDatabase } from "../db/testing.ts";
import {
  claimAll,
  claimWork,
  enqueue,
  finishWork,
  listDueKinds,
  reapWork,
  renewAll,
  renewWork,
  workTopic,
} from "./queue.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());
beforeEach(() => database.db.deleteFrom("work_item").execute());

const kinds = ["deploy"];
const claim = (owner = "a", leaseMs = 60_000) => claimWork(database.db, { kinds, owner, leaseMs });
const add = (key: string, payload: unknown = {}) => enqueue(database.db, { kind: "deploy", key, payload });

test("items of one key run one after another, oldest first; other keys do not wait", async () => {
  const [first, second, other] = [await add("p1"), await add("p1"), await add("p2")];
  const one = await claim();
  expect(one?.id).toBe(first);
  expect((await claim())?.id).toBe(other);
  expect(await claim()).toBeNull();
  if (one) await finishWork(database.db, one, "a", { state: "done" });
  expect((await claim())?.id).toBe(second);
});

test("twenty workers that claim at once never share an item or a key", async () => {
  for (let i = 0; i < 10; i += 1) await add(`p${i % 5}`);
  const claims = await Promise.all(Array.from({ length: 20 }, (_, i) => claim(`w${i}`)));
  const items = claims.filter((item) => item !== null);
  expect(new Set(items.map((item) => item.key)).size).toBe(items.length);
  expect(items.length).toBeGreaterThan(0);
});

test("many are claimed at once: one of each key, the oldest first, and no more than asked for", async () => {
  const keys = ["p1", "p1", "p2", "p3"];
  const ids: number[] = [];
  for (const key of keys) ids.push(await add(key));
  const claims = async (limit: number) =>
    (await claimAll(database.db, { kinds, owner: "a", leaseMs: 60_000, limit })).map(({ id }) => id).sort();
  expect(await claims(2)).toEqual([ids[0], ids[2]]);
  expect(await claims(8)).toEqual([ids[3]]);
  expect(await claims(8)).toEqual([]);
});

test("four replicas that claim many at once never share an item or a key", async () => {
  for (let i = 0; i < 40; i += 1) await add(`p${i % 20}`);
  const of = (owner: string) => claimAll(database.db, { kinds, owner, leaseMs: 60_000, limit: 8 });
  const items = (await Promise.all(["a", "b", "c", "d"].map(of))).flat();
  expect(new Set(items.map(({ key }) => key)).size).toBe(items.length);
  expect(items.length).toBeGreaterThan(0);
});

test("leases of many are extended at once, and those that were lost are told", async () => {
  await add("p1");
  await add("p2");
  const lost = await claim("a", -1);
  expect(await reapWork(database.db)).toBe(1);
  const [taken, kept] = [await claim("b"), await claim("a", 1)];
  if (!lost || !taken || !kept) throw new Error("nothing was claimed");
  expect(await renewAll(database.db, [lost, kept], "a", 60_000)).toEqual(new Set([kept.id]));
  expect(await reapWork(database.db)).toBe(0);
});

test("of what is due the kinds are known, whether or not its key is idle; not of what is to wait, or under way", async () => {
  const kindsOf = async () => (await listDueKinds(database.db, ["deploy", "retire", "rename"])).sort();
  const due = (kind: string, runAt?: Date) =>
    enqueue(database.db, { kind, key: "p1", payload: {}, ...(runAt && { runAt }) });
  await due("deploy");
  await due("retire");
  await due("rename", new Date(Date.now() + 3_600_000));
  await due("alert");
  expect(await kindsOf()).toEqual(["deploy", "retire"]);
  await claim();
  expect(await kindsOf()).toEqual(["retire"]);
});

test("work exists exactly when the transaction that needs it commits", async () => {
  await database.db
    .transaction()
    .execute(async (tx) => {
      await enqueue(tx, { kind: "deploy", key: "p1", payload: {} });
      throw new Error("something else went wrong");
    })
    .catch(() => undefined);
  expect(await claim()).toBeNull();
});

test("a dead worker's item goes to another, and the dead one can no longer finish it", async () => {
  await add("p1");
  const dead = await claim("dead", -1);
  expect(await reapWork(database.db)).toBe(1);
  const taken = await claim("alive");
  expect(taken?.id).toBe(dead?.id);
  expect(taken?.attempt).toBe(2);
  if (!dead || !taken) throw new Error("nothing was claimed");
  expect(await renewWork(database.db, dead, "dead", 60_000)).toBe(false);
  expect(await finishWork(database.db, dead, "dead", { state: "done" })).toBe(false);
  expect(await finishWork(database.db, taken, "alive", { state: "done" })).toBe(true);
});

test("an item that is put off keeps its place and is not counted as failed", async () => {
  const id = await add("p1");
  const item = await claim();
  if (!item) throw new Error("nothing was claimed");
  await finishWork(database.db, item, "a", { retryAfterMs: 0, refund: true });
  const again = await claim();
  expect(again).toMatchObject({ id, attempt: 1 });
});

test("an item of an unknown kind stays for a newer version that knows it", async () => {
  await enqueue(database.db, { kind: `future-${randomUUID()}`, key: "p1", payload: {} });
  expect(await claim()).toBeNull();
});

test("whoever finishes work announces the kinds that wait for its key, and nothing where none does", async () => {
  const heard: string[] = [];
  await using listener = createListener(systemClock, database.url, createLog("silent"));
  using _heard = listener.on(workTopic, (kind) => void heard.push(kind));
  // Once it listens it says so.
  await expect.poll(() => heard, { timeout: 20_000 }).toContain("");
  // Announcements come in the order of their commits.
  const heardUntil = async (kind: string) => {
    await enqueue(database.db, { kind, key: kind, payload: {} });
    await expect.poll(() => heard, { timeout: 20_000 }).toContain(kind);
    return heard.splice(0);
  };
  await add("p1");
  await enqueue(database.db, { kind: "retire", key: "p1", payload: {} });
  await add("p2");
  const [first, other] = [await claim(), await claim()];
  if (!first || !other) throw new Error("nothing was claimed");
  await heardUntil("begun");
  for (const item of [other, first]) await finishWork(database.db, item, "a", { state: "done" });
  expect(await heardUntil("over")).toEqual(["retire", "over"]);
});
