import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConfig } from "../../../config.ts";
import { keys } from "../../../fleet/cluster/keys.ts";
import { tokenKeySettings } from "../../../fleet/registry-tokens/testing.ts";
import { createLog } from "../../../log.ts";
import { start } from "../../../start.ts";
import { seedPlans } from "../../../stores/db/seed.ts";
import { type TestDatabase, testDatabase } from "../../../stores/db/testing.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../../stores/etcd/testing.ts";
import { createSecrets } from "../../../stores/secrets.ts";
import { envVarAad, readEnv } from "../../env/store.ts";
import { sealedPlaces } from "./places.ts";
import { countByKey } from "./store.ts";

let database: TestDatabase;
let etcd: EtcdServer;
beforeAll(async () => {
  [database, etcd] = await Promise.all([testDatabase(), startEtcd()]);
});
afterAll(async () => {
  await etcd[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const main = fileURLToPath(new URL("../../../main.ts", import.meta.url));
const [old, fresh] = [randomBytes(32), randomBytes(32)];
const values = 3_000;

const settings = (...masterKeys: Buffer[]) => ({
  ...tokenKeySettings,
  SVC_DATABASE_URL: database.url,
  SVC_ETCD_ENDPOINTS: etcd.endpoint,
  SVC_API_LISTEN: "127.0.0.1:0",
  SVC_LINK_LISTEN: "127.0.0.1:0",
  SVC_ENROLL_LISTEN: "127.0.0.1:0",
  SVC_MASTER_KEY: masterKeys.map((key) => key.toString("base64")).join("\n"),
  SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  // A leader would seal salts meanwhile.
  SVC_ANALYTICS: "off",
});

interface Run {
  child: ChildProcess;
  output(): string;
  /** The exit code; null when it was killed. */
  ended: Promise<number | null>;
}

/** The real program, as an operator runs it. */
function run(masterKeys: Buffer[], ...args: string[]): Run {
  const child = spawnProgram([thisNode, main, "rotate-key", ...args], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      ...settings(...masterKeys),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
  return { child, output: () => text, ended: once(child, "close").then(([code]) => code as number | null) };
}

const sealedWith = async (key: Buffer) => {
  const [id] = createSecrets([key]).keyIds;
  const counts = await countByKey(database.db, sealedPlaces);
  return counts.filter(({ keyId }) => keyId === id).reduce((sum, { count }) => sum + count, 0);
};

async function waitsForValue(): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%update "env_var"%'`.execute(
    database.db,
  );
  return rows.length > 0;
}

async function untilAnnounced(): Promise<void> {
  await using client = testClient(etcd.endpoint);
  await until("the server is announced", async () => (await client.range("/svc/servers/")).entries.length === 1);
}

/** For a start of the whole program, on a machine that does other things, too. */
const programMs = 120_000;

test(
  "killed midway and run again, it ends with everything under the new key, and the old key may go",
  async () => {
    const { db } = database;
    await seedPlans(db);
    const { rows: users } = await sql<{ id: string }>`insert into auth."user" (name, email, "emailVerified")
    values ('Ada', 'ada@svc.test', true) returning id`.execute(db);
    const owner_id = users[0]?.id ?? "";
    const { id } = await db
      .insertInto("project")
      .values({ owner_id, name: "Shop", slug: "shop", type: "ssr" })
      .returning("id")
      .executeTakeFirstOrThrow();
    const before = createSecrets([old]);
    const vars = Array.from({ length: values }, (_, n) => ({ key: `K${n}`, value: `canary-${n}` }));
    for (let at = 0; at < values; at += 500) {
      const rows = vars.slice(at, at + 500).map(({ key, value }) => ({
        project_id: id,
        key,
        value: before.seal(Buffer.from(value), envVarAad(id, key)),
      }));
      await db.insertInto("env_var").values(rows).execute();
    }

    const killed = await db.transaction().execute(async (tx) => {
      // However fast it is, it gets no further than this one.
      await tx.selectFrom("env_var").select("key").where("key", "=", "K5").forUpdate().execute();
      const rotating = run([fresh, old]);
      await until("it has come to a value in the middle", waitsForValue, programMs);
      rotating.child.kill("SIGKILL");
      await rotating.ended;
      return rotating;
    });
    const done = await sealedWith(fresh);
    expect(done).toBeGreaterThan(0);
    expect(done).toBeLessThan(values);

    const check = run([fresh, old], "--check");
    expect(await check.ended).toBe(1);
    expect(check.output()).toMatch(/keep every other key/);

    const again = run([fresh, old]);
    expect([await again.ended, again.output()]).toEqual([0, expect.stringMatching(/the other keys may be removed/)]);
    expect(await sealedWith(old)).toBe(0);
    const alone = run([fresh], "--check");
    expect([await alone.ended, alone.output()]).toEqual([0, expect.stringMatching(/there is no other key/)]);
    expect(await readEnv(db, createSecrets([fresh]), id, null)).toEqual(
      Object.fromEntries(vars.map(({ key, value }) => [key, value])),
    );
    // Nothing that it says gives a value away.
    for (const { output } of [killed, again, check]) expect(output()).not.toContain("canary");
  },
  4 * programMs,
);

test("while a server runs that does not seal with the new key, nothing is touched", async () => {
  await sql`truncate project, cluster cascade`.execute(database.db);
  const log = createLog("silent");
  const server = await start(readConfig(new Date(), settings(old)), { log });
  try {
    await untilAnnounced();
    const refused = run([fresh, old]);
    expect([await refused.ended, refused.output()]).toEqual([
      2,
      expect.stringMatching(/Restart each with the new key/),
    ]);
    expect(await sealedWith(old)).toBe(1);
  } finally {
    await server[Symbol.asyncDispose]();
  }
  // Restarted with both, it may go on.
  await using _ = await start(readConfig(new Date(), settings(fresh, old)), { log });
  await untilAnnounced();
  const done = run([fresh, old]);
  expect([await done.ended, done.output()]).toEqual([0, expect.stringMatching(/sealed 1 value anew/)]);
  await using _alone = await start(readConfig(new Date(), settings(fresh)), { log });
});

test("a server of an older version, which does not tell its keys, counts as one that does not know them", async () => {
  await using client = testClient(etcd.endpoint);
  const value = JSON.stringify({ serverId: "older", startedAt: "1970-01-01T00:00:00.000Z" });
  await client.txn({ guards: [], ops: [{ put: { key: keys.server("older"), value } }] });
  const refused = run([fresh]);
  expect([await refused.ended, refused.output()]).toEqual([2, expect.stringMatching(/older \(started 1970/)]);
});
