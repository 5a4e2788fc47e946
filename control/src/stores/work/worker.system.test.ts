import type { Clock, Timer } from "@svc/runtime/clock";
import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createListener, type Listener } from "../db/listen.ts";
import { type TestDatabase, testDatabase } from "../db/testing.ts";
import { enqueue } from "./queue.ts";
import { startWorkers, type WorkHandler } from "./worker.ts";

const log = createLog(process.env["SVC_TEST_LOG_LEVEL"] ?? "silent");

let database: TestDatabase;
let listener: Listener;
beforeAll(async () => {
  database = await testDatabase();
  listener = createListener(systemClock, database.url, log);
});
afterAll(async () => {
  await listener?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
});
afterEach(() => database.db.deleteFrom("work_item").execute());

/** A whole machine may stand still for longer than `expect.poll` waits by itself. */
const patience = { timeout: 20_000 };
const statesOf = async (kind: string) =>
  (await database.db.selectFrom("work_item").select("state").where("kind", "=", kind).orderBy("id").execute()).map(
    ({ state }) => state,
  );

test.each([
  { full: "deploy", other: "retire" },
  { full: "retire", other: "deploy" },
])("work of kind $other is done while as much of kind $full as there is room for does not end", async (kinds) => {
  const held = Promise.withResolvers<void>();
  const handler: WorkHandler = async ({ kind }, signal) => {
    signal.addEventListener("abort", () => held.resolve());
    if (kind === kinds.full) await held.promise;
    return { state: "done" };
  };
  const { db } = database;
  await using _workers = startWorkers({
    clock: systemClock,
    ...{ db, listener, log, owner: "a", leaseMs: 10_000 },
    groups: ["deploy", "retire"].map((kind) => ({ concurrency: 2, handlers: { [kind]: handler } })),
  });
  for (const key of ["1", "2", "3"]) await enqueue(db, { kind: kinds.full, key, payload: {} });
  await expect.poll(() => statesOf(kinds.full), patience).toEqual(["running", "running", "queued"]);
  await enqueue(db, { kind: kinds.other, key: "4", payload: {} });
  await expect.poll(() => statesOf(kinds.other), patience).toEqual(["done"]);
  expect(await statesOf(kinds.full)).toEqual(["running", "running", "queued"]);
  held.resolve();
  await expect.poll(() => statesOf(kinds.full), patience).toEqual(["done", "done", "done"]);
});

test("work of another kind that waits for a key begins when the key is free, with nobody looking by the clock", async () => {
  // No timer ever runs: what happens was announced.
  const stopped: Clock = { ...systemClock, after: () => never };
  const never: Timer = { unref: () => never, [Symbol.dispose]: () => {} };
  const free = Promise.withResolvers<void>();
  const handler: WorkHandler = async ({ kind }) => {
    if (kind === "deploy") await free.promise;
    return { state: "done" };
  };
  const { db } = database;
  await using _workers = startWorkers({
    clock: stopped,
    ...{ db, listener, log, owner: "a", leaseMs: 10_000 },
    groups: ["deploy", "retire"].map((kind) => ({ concurrency: 2, handlers: { [kind]: handler } })),
  });
  for (const kind of ["deploy", "retire"]) await enqueue(db, { kind, key: "1", payload: {} });
  await expect.poll(() => statesOf("deploy"), patience).toEqual(["running"]);
  expect(await statesOf("retire")).toEqual(["queued"]);
  free.resolve();
  await expect.poll(() => statesOf("retire"), patience).toEqual(["done"]);
});
