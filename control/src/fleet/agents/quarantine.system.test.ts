import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createListener } from "../../stores/db/listen.ts";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { nodeTopic, routeTopic, taskTopic } from "../cluster/topics.ts";
import { nodeRows } from "./node-rows.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

test("of a machine that there is twice everybody is told who decides about it: visitors leave it as well", async () => {
  const topics = [nodeTopic, taskTopic, routeTopic];
  const heard: string[] = [];
  await using listener = createListener(systemClock, database.url, createLog("silent"));
  for (const topic of topics) listener.on(topic, () => void heard.push(topic));
  // Once it listens it says so.
  await expect.poll(() => heard.sort(), { timeout: 20_000 }).toEqual([...topics].sort());
  heard.splice(0);
  const values = { role: "node", name: "machine", labels: "{}" } as const;
  const { id } = await database.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow();
  const rows = nodeRows(database.db);
  expect(await rows.quarantine(id, systemClock.now())).toBe(true);
  await expect.poll(() => heard.sort(), { timeout: 20_000 }).toEqual([...topics].sort());
  expect(await rows.quarantine(id, systemClock.now())).toBe(false);
});
