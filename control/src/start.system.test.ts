import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Config, readConfig } from "./config.ts";
import { type TestDatabase, testDatabase } from "./db/testing.ts";
import { type EtcdServer, startEtcd } from "./etcd/testing.ts";
import { createLog } from "./log.ts";
import { start } from "./start.ts";

let database: TestDatabase;
let etcd: EtcdServer;
beforeAll(async () => {
  [database, etcd] = await Promise.all([testDatabase(), startEtcd()]);
});
afterAll(async () => {
  await etcd[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const masterKey = randomBytes(32).toString("base64");
const config = (): Config =>
  readConfig({
    SVC_DATABASE_URL: database.url,
    SVC_ETCD_ENDPOINTS: etcd.endpoint,
    SVC_API_LISTEN: "127.0.0.1:0",
    SVC_LINK_LISTEN: "127.0.0.1:0",
    SVC_ENROLL_LISTEN: "127.0.0.1:0",
    SVC_MASTER_KEY: masterKey,
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  });

test("two replicas serve the same cluster, and one goes on when the other stops", async () => {
  const shared = config();
  const log = createLog("silent");
  await using first = await start(shared, { log });
  const second = await start(shared, { log });
  const ready = async (port: number) => (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
  expect(await ready(first.apiPort)).toBe(200);
  expect(await ready(second.apiPort)).toBe(200);
  await second[Symbol.asyncDispose]();
  expect(await ready(first.apiPort)).toBe(200);
  await expect(ready(second.apiPort)).rejects.toThrow();
});

test("a stranger learns nothing from the API", async () => {
  await using server = await start(config(), { log: createLog("silent") });
  const reply = await fetch(`http://127.0.0.1:${server.apiPort}/api/v1/projects`);
  expect(reply.status).toBe(401);
  expect(await reply.json()).toMatchObject({ ok: false, error: { code: "UNAUTHORIZED" } });
});

test("a replica with another master key refuses to start instead of damaging anything", async () => {
  await using _ = await start(config(), { log: createLog("silent") });
  const other: Config = { ...config(), masterKeys: [randomBytes(32)] };
  await expect(start(other, { log: createLog("silent") })).rejects.toThrow("key that is not configured");
});
