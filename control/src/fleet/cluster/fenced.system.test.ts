import { afterAll, beforeAll, expect, test } from "vitest";
import { createDb, type Db } from "../../stores/db/pool.ts";
import { lockWaits, type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { inFencedTransaction, LeaderOutdated, raiseFence } from "./fenced.ts";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await testDatabase();
  db = createDb({ url: database.url, lockTimeoutMs: 5_000 });
});
afterAll(async () => {
  await db?.destroy();
  await database?.[Symbol.asyncDispose]();
});

const nothing = async () => {};

test("a leader writes from when it took over until another one does", async () => {
  await expect(inFencedTransaction(db, 7n, nothing)).rejects.toBeInstanceOf(LeaderOutdated);
  await raiseFence(db, 7n);
  await inFencedTransaction(db, 7n, nothing);
  await raiseFence(db, 9n);
  await expect(inFencedTransaction(db, 7n, nothing)).rejects.toBeInstanceOf(LeaderOutdated);
  await expect(raiseFence(db, 7n)).rejects.toBeInstanceOf(LeaderOutdated);
  await inFencedTransaction(db, 9n, nothing);
});

test("transactions of one leader do not wait for one another, and another leader takes over after them", async () => {
  await raiseFence(db, 20n);
  let takenOver: Promise<void> | undefined;
  await inFencedTransaction(db, 20n, async () => {
    await inFencedTransaction(db, 20n, nothing);
    takenOver = raiseFence(db, 21n);
    await until("it waits", async () => (await lockWaits(db)) > 0);
  });
  await takenOver;
  await expect(inFencedTransaction(db, 20n, nothing)).rejects.toBeInstanceOf(LeaderOutdated);
});
