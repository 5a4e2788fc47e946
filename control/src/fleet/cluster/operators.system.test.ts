import { randomBytes } from "node:crypto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { version } from "@svc/runtime/version";
import { expect, test } from "vitest";
import { readConfig } from "../../config.ts";
import { createLog } from "../../log.ts";
import { start } from "../../start.ts";
import { testDatabase } from "../../stores/db/testing.ts";
import { createEtcd } from "../../stores/etcd/index.ts";
import { startEtcd } from "../../stores/etcd/testing.ts";
import { tokenKeySettings } from "../registry-tokens/testing.ts";
import { keys } from "./keys.ts";
import { operatorFacts } from "./operators.ts";
import { openFleet } from "./testing.ts";

test("what a running replica announces, who leads, and whose clock is off can be told by any other", async () => {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await testDatabase());
  const server = stack.use(await startEtcd());
  const log = createLog("silent");
  const config = readConfig(new Date(), {
    ...tokenKeySettings,
    SVC_DATABASE_URL: database.url,
    SVC_ETCD_ENDPOINTS: server.endpoint,
    SVC_API_LISTEN: "127.0.0.1:0",
    SVC_LINK_LISTEN: "127.0.0.1:0",
    SVC_ENROLL_LISTEN: "127.0.0.1:0",
    SVC_MASTER_KEY: randomBytes(32).toString("base64"),
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  });
  stack.use(await start(config, { log }));
  const etcd = stack.use(createEtcd({ clock: systemClock, random: systemRandom, endpoints: [server.endpoint], log }));
  const fleet = stack.use(await openFleet(etcd, { clock: systemClock, log }));
  const facts = operatorFacts({
    clock: systemClock,
    machineClock: systemClock,
    serverId: "onlooker",
    etcd,
    fleet,
    ...config.etcd,
  });

  await expect.poll(() => facts.replicas()).toHaveLength(1);
  const [replica] = facts.replicas();
  expect(replica).toMatchObject({
    version,
    masterKeyIds: [expect.stringMatching(/^[0-9a-f]{8}$/)],
    clockOffsetMs: null,
  });
  await expect.poll(() => facts.leaderId()).toBe(replica?.serverId);
  await etcd.txn({ ops: [{ put: { key: keys.clock("node-1"), value: "-3500" } }] });
  expect([...(await facts.clockOffsets())]).toEqual([["node-1", -3500]]);
  expect(await facts.etcdMembers(2_000)).toMatchObject([{ endpoint: server.endpoint, hasLeader: true }]);
  expect(facts.servedBy("nobody")).toBeNull();
});
