import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../../../log.ts";
import { type TestDatabase, testDatabase } from "../../../stores/db/testing.ts";
import { insertNodeEvents } from "../../nodes/events/store.ts";
import { stormRows } from "./store.ts";
import { createStormWatch } from "./watch.ts";

/* A leader that has led for long, and began to watch when these nodes were away already. */

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());
beforeEach(async () => {
  await database.db.deleteFrom("node").execute();
});

const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);

/** Nodes that came so many minutes ago. */
async function newNodes(...cameMinutesAgo: number[]): Promise<string[]> {
  const rows = await database.db
    .insertInto("node")
    .values(
      cameMinutesAgo.map((minutes, index) => ({
        ...{ role: "node" as const, name: `machine-${index}`, labels: "{}", last_seen_at: minutesAgo(minutes) },
      })),
    )
    .returning("id")
    .execute();
  const ids = rows.map(({ id }) => id);
  await insertNodeEvents(
    database.db,
    ids.map((nodeId, index) => ({ nodeId, kind: "connected", at: minutesAgo(cameMinutesAgo[index] ?? 0) })),
  );
  return ids;
}

const watch = () =>
  createStormWatch({
    rows: stormRows(database.db),
    fleet: {
      nodeLink: () => ({ link: "unreachable", since: minutesAgo(60) }),
      wasAwayAtFirst: () => true,
      now: () => new Date(),
      status: () => null,
    },
    leadership: { txn: async () => ({ succeeded: true, revision: 1n, reads: [] }) },
    ...{ leaderId: "replica", leadingSince: minutesAgo(60), log: createLog("silent") },
  });

test("nodes that went while nobody looked may have gone together, whenever each of them came", async () => {
  await newNodes(90_000, 40_000, 5_000);
  const storms = watch();
  expect(await storms.look()).toMatchObject({ reason: "3 of 3 nodes were lost within a minute" });
  expect(storms.current()).not.toBeNull();
});

test("nodes whose loss a leader noted went then", async () => {
  const ids = await newNodes(90_000, 90_000, 90_000);
  await insertNodeEvents(
    database.db,
    ids.map((nodeId, index) => ({ nodeId, kind: "unreachable", at: minutesAgo(1_000 * (index + 1)) })),
  );
  expect(await watch().look()).toBeNull();
});

test("a loss that was noted before they came again is none that counts", async () => {
  const ids = await newNodes(500, 300, 100);
  await insertNodeEvents(
    database.db,
    ids.map((nodeId, index) => ({ nodeId, kind: "unreachable", at: minutesAgo(1_000 * (index + 1)) })),
  );
  expect(await watch().look()).not.toBeNull();
});
