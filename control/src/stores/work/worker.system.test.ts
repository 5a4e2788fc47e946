import type { Clock, Timer } from "@svc/runtime/clock";
import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createListener, type Listener } from "../db/listen.ts";
import { type TestDatabase, testDatabase } from "../db/testing.ts";
import { enqueue } from "./queue.ts";
import { workRows } from "./rows.ts";
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
    ...{ rows: workRows(db), listener, log, owner: "a", leaseMs: 10_000 },
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
    ...{ rows: workRows(db), listener, log, owner: "a", leaseMs: 10_000 },
    groups: ["deploy", "retire"].map((kind) => ({ concurrency: 2, handlers: { [kind]: handler } })),
  });
  for (const kind of ["deploy", "retire"]) await enqueue(db, { kind, key: "1", payload: {} });
  await expect.poll(() => statesOf("deploy"), patience).toEqual(["running"]);
  expect(await statesOf("retire")).toEqual(["queued"]);
  free.resolve();
  await expect.poll(() => statesOf("retire"), patience).toEqual(["done"]);
});

test("who is cut off claims nothing, and leaves what is under way to others", async () => {
  const { db } = database;
  let isCutOff = false;
  const doneBy: string[] = [];
  const startOne = (owner: string, cutOff: () => boolean, handler: WorkHandler) =>
    startWorkers({
      clock: systemClock,
      ...{ rows: workRows(db), listener, log, owner, leaseMs: 1_000, isCutOff: cutOff },
      groups: [{ concurrency: 2, handlers: { deploy: handler } }],
    });
  const begun = Promise.withResolvers<void>();
  await using _one = startOne(
    "one",
    () => isCutOff,
    (_item, signal) => {
      begun.resolve();
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  );
  await enqueue(db, { kind: "deploy", key: "1", payload: {} });
  await begun.promise;
  isCutOff = true;
  await using _other = startOne(
    "other",
    () => false,
    async ({ key }) => {
      doneBy.push(key);
      return { state: "done" };
    },
  );
  await enqueue(db, { kind: "deploy", key: "2", payload: {} });
  await expect.poll(() => statesOf("deploy"), patience).toEqual(["done", "done"]);
  expect(doneBy.toSorted()).toEqual(["1", "2"]);
});
