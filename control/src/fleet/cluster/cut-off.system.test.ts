import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createListener, type Listener } from "../../stores/db/listen.ts";
import { notify } from "../../stores/db/notify.ts";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { watchCutOff } from "./cut-off.ts";
import { replicaTopic } from "./topics.ts";

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

/** A replica of control that is announced in etcd as long as the test says so. */
function aReplica(serverId: string) {
  const replica = { isAnnounced: true };
  const watch = watchCutOff({
    ...{ clock: systemClock, listener, serverId, log, lostForMs: 0 },
    notify: (topic, payload) => notify(database.db, topic, payload),
    isAnnounced: () => replica.isAnnounced,
  });
  return Object.assign(replica, {
    isCutOff: () => watch.isCutOff,
    [Symbol.dispose]: () => watch[Symbol.dispose](),
  });
}

test("a replica is cut off while it is not announced and another one says that it is", async () => {
  using one = aReplica("one");
  using other = aReplica("other");
  expect([one.isCutOff(), other.isCutOff()]).toEqual([false, false]);

  one.isAnnounced = false;
  await expect.poll(one.isCutOff).toBe(true);
  expect(other.isCutOff()).toBe(false);

  // etcd is gone for everybody: nobody says anything any more.
  other.isAnnounced = false;
  await expect.poll(one.isCutOff).toBe(false);
  expect(other.isCutOff()).toBe(false);

  other.isAnnounced = true;
  await expect.poll(one.isCutOff).toBe(true);
  one.isAnnounced = true;
  expect(one.isCutOff()).toBe(false);
});

test("a replica that is the only one is never cut off", async () => {
  using only = aReplica("only");
  const asked: string[] = [];
  using _listening = listener.on(replicaTopic, (payload) => void asked.push(payload));
  only.isAnnounced = false;
  // Its own questions come back to it.
  await expect.poll(() => asked.length).toBeGreaterThan(2);
  expect(only.isCutOff()).toBe(false);
});
