import type { ChildProcess } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { encodeUniques, noUniques } from "@svc/proto/uniques";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { freePorts } from "../../../../registry/src/testing/ports.ts";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { type EtcdServer, startEtcd } from "../../stores/etcd/testing.ts";
import { createSecrets } from "../../stores/secrets.ts";
import { openAuthority } from "../ca/authority.ts";
import { aDaemon, aRouter, type DaemonFiles, type RouterTalk, until } from "../daemons/testing.ts";
import { tokenKeySettings } from "../registry-tokens/testing.ts";

/*
 * The real program is killed while it counts what an edge sends. An edge sends what is not acknowledged once more, to whoever it
 * reaches, and sees nothing of what became of it.
 */

const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
const masterKey = randomBytes(32);
const hourMs = 3_600_000;
const hour = BigInt(Math.floor(Date.now() / hourMs));
const startMs = 120_000;

const stack = new AsyncDisposableStack();
let database: TestDatabase;
let etcd: EtcdServer;
let edge: DaemonFiles;
let ports: { linkPort: number; enrollPort: number };
let control: ChildProcess;
beforeAll(async () => {
  [database, etcd] = await Promise.all([testDatabase(), startEtcd()]);
  stack.use(database);
  stack.use(etcd);
  const [linkPort = 0, enrollPort = 0] = await freePorts(2);
  ports = { linkPort, enrollPort };
  const authority = await openAuthority(database.db, createSecrets([masterKey]), {
    clock: systemClock,
    random: systemRandom,
  });
  stack.defer(kill);
  await start();
  edge = await aDaemon({ database, authority }, ports, "edge");
});
afterAll(() => stack.disposeAsync());

async function start(): Promise<void> {
  const child = spawnProgram([thisNode, main, "serve"], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      ...tokenKeySettings,
      SVC_DATABASE_URL: database.url,
      SVC_ETCD_ENDPOINTS: etcd.endpoint,
      SVC_API_LISTEN: "127.0.0.1:0",
      SVC_LINK_LISTEN: `127.0.0.1:${ports.linkPort}`,
      SVC_ENROLL_LISTEN: `127.0.0.1:${ports.enrollPort}`,
      SVC_MASTER_KEY: masterKey.toString("base64"),
      SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  control = child;
  let output = "";
  const keep = (text: string): void => {
    output += text;
  };
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", keep);
  await until("control serves", () => output.includes('"ready"') || child.exitCode !== null, startMs);
  if (child.exitCode !== null) throw new Error(`control ended:\n${output}`);
}

/** SIGKILL, and wait until it is gone. */
async function kill(): Promise<void> {
  if (control === undefined || control.exitCode !== null || control.signalCode !== null) return;
  const gone = once(control, "exit");
  control.kill("SIGKILL");
  await gone;
}

let owner: string;
let project: string;
/** Of the edge's batches, and of its one row of analytics. */
let series: string;
beforeEach(async () => {
  series = randomUUID();
  owner = randomUUID();
  await sql`insert into auth."user" (id, name, email, "emailVerified", "updatedAt")
    values (${owner}, 'U', ${`${owner}@shop.test`}, true, now())`.execute(database.db);
  const values = { owner_id: owner, name: "Shop", slug: `s${randomUUID().slice(0, 12)}`, type: "static" as const };
  ({ id: project } = await database.db.insertInto("project").values(values).returning("id").executeTakeFirstOrThrow());
});

const each = { requests: 10n, bytesIn: 1n, bytesOut: 100n, status2xx: 10n };

/** Batch `number` has ten requests, and the row of analytics after it ten times as many. */
function send(router: RouterTalk, number: number): void {
  const place = { projectId: project, channel: "production", hour };
  router.send({ case: "traffic", value: { series, number: BigInt(number), counts: [{ ...place, ...each }] } });
  const status2xx = each.status2xx * BigInt(number);
  const row = { series, seq: BigInt(number), ...place, status2xx, paths: [{ value: "/", count: status2xx }] };
  const visitors = Uint8Array.from(encodeUniques(noUniques()));
  router.send({ case: "analytics", value: { number: BigInt(number), rows: [{ ...row, visitors }] } });
}

/** Sends it as often as it takes, over a connection of its own, until control says that it has it. */
async function deliver(number: number): Promise<void> {
  await using router = await aRouter(ports, edge);
  send(router, number);
  expect(await router.next("trafficAck")).toMatchObject({ series, number: BigInt(number) });
  expect(await router.next("analyticsAck")).toMatchObject({ number: BigInt(number) });
}

/** Sums of everything that has been kept. */
async function counted(): Promise<Record<string, number | null>> {
  const { rows } = await sql<Record<string, number | null>>`select
    (select sum(requests)::int from traffic_hour where project_id = ${project}) as hours,
    (select sum(requests)::int from traffic_day where project_id = ${project}) as days,
    (select sum(bytes_out)::int from traffic_month where user_id = ${owner}) as bytes,
    (select sum((data->>'s2xx')::int)::int from analytics_hour where project_id = ${project}) as analytics`.execute(
    database.db,
  );
  return rows[0] ?? {};
}
const expected = (batches: number) => ({
  ...{ hours: 10 * batches, days: 10 * batches, bytes: 100 * batches, analytics: 10 * batches },
});

async function isWaited(many: number): Promise<boolean> {
  const { rows } = await sql<{ many: number }>`select count(*)::int as many from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(database.db);
  return (rows[0]?.many ?? 0) >= many;
}

test("killed in the middle of a batch, control has it once afterwards", async () => {
  await deliver(1);
  expect(await counted()).toEqual(expected(1));
  await database.db.transaction().execute(async (tx) => {
    // Whoever counts has put down the number of the batch by now, and waits for its project.
    await sql`select from project where id = ${project} for update`.execute(tx);
    await using router = await aRouter(ports, edge);
    send(router, 2);
    await until("both are in the middle", () => isWaited(2));
    await kill();
  });
  await start();
  await deliver(2);
  expect(await counted()).toEqual(expected(2));
  await deliver(3);
  expect(await counted()).toEqual(expected(3));
});

test("killed between what it keeps and what it says of that, control has it once", async () => {
  for (let number = 1; number <= 2; number += 1) {
    {
      await using router = await aRouter(ports, edge);
      send(router, number);
      // No answer is waited for: it may be under way, or never come.
      await until("it is kept", async () => (await counted())["hours"] === 10 * number);
      await kill();
    }
    await start();
    await deliver(number);
    expect(await counted()).toEqual(expected(number));
  }
});
