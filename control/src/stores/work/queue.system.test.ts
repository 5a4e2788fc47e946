import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../db/testing.ts";
import { enqueue } from "./queue.ts";
import { claimWork } from "./testing/claim.ts";

/* What only Postgres does; the rest is in `rows.system.test.ts`. */

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());
beforeEach(() => database.db.deleteFrom("work_item").execute());

const claim = () => claimWork(database.db, { kinds: ["deploy"], owner: "a", leaseMs: 60_000 });

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
