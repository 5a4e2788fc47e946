import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { databaseProxyFiles } from "@svc/proto/database-proxy";
import { DatabaseEntry_State, DatabaseTableSchema } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { waitFor } from "../testing/wait.ts";
import { openProxyDir, type ProxyDir } from "./proxy-dir.ts";
import type { Bridge } from "./table.ts";
import { createDatabaseTables, type DatabaseTables } from "./table-writer.ts";

const databaseId = "018f3a6e-4f00-7000-8000-000000000001";
const nodeId = "018f3a6e-4f00-7000-8000-00000000000a";
const log = pino({ level: "silent" });
const network: Bridge = { projectId: "p1", channel: "production", address: "10.213.0.17" };

let path: string;
let dir: ProxyDir;
let settings: Map<string, string>;
let bridges: Bridge[];
let stop: AbortController;
let running: Promise<void>[];
/** Copies whose doors were made last, and those whose were left when others went. */
let laid: string[] | null;
let kept: string[] | null;
/** What was on the disk when ways to other machines were opened. */
let opened: string[];

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), "svc-table-"));
  dir = openProxyDir(path);
  [settings, bridges, stop, running] = [new Map(), [network], new AbortController(), []];
  [laid, kept, opened] = [null, null, []];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await rm(path, { recursive: true, force: true });
});

/** A life of the agent, with what a former one left. */
function aLife(): DatabaseTables {
  stop.abort();
  stop = new AbortController();
  const journal = {
    findSetting: (key: string) => settings.get(key) ?? null,
    saveSetting: (key: string, value: string) => void settings.set(key, value),
  };
  const here = { nodeId, peerPort: 7445, socketOf: () => "/run/one.sock", doorOf: () => "/run/door.sock" };
  const tables = createDatabaseTables({
    ...{ clock: systemClock, journal, dir, here, bridges: async () => bridges, log },
    doors: {
      async lay(copyIds) {
        laid = [...copyIds];
      },
      async removeOthers(copyIds) {
        kept = [...copyIds];
      },
    },
    async openWays() {
      opened.push((await written()).generation);
    },
  });
  running.push(tables.run(stop.signal));
  return tables;
}
const aTable = (connectionLimit: number, epoch = 3n, copies: { copyId: string; nodeId: string }[] = []) =>
  create(DatabaseTableSchema, {
    entries: [
      {
        ...{ databaseId, epoch, engine: "postgres", role: "r_1", database: "d_1", nodeId, address: "10.0.0.7" },
        ...{ projectId: "p1", channel: "production", connectionLimit, state: DatabaseEntry_State.OPEN, copies },
      },
    ],
  });
const written = async () => (await dir.readTable()) ?? { generation: "none", entries: [] };
const limitIs = (limit: number) =>
  waitFor(`a limit of ${limit}`, async () => (await written()).entries[0]?.connectionLimit === limit);
const serves = (generation: string): Promise<void> =>
  writeFile(join(path, databaseProxyFiles.state), JSON.stringify({ generation, pid: 1, connections: [] }));

test("a table has another generation when it is another, and only then", async () => {
  const tables = aLife();
  tables.take(aTable(10));
  await limitIs(10);
  const first = await written();
  tables.take(aTable(10));
  tables.take(aTable(20));
  await limitIs(20);
  expect(BigInt((await written()).generation)).toBe(BigInt(first.generation) + 1n);
  bridges = [];
  tables.wake();
  await waitFor("no bridge", async () => (await written()).entries[0]?.bridges.length === 0);
  expect(BigInt((await written()).generation)).toBe(BigInt(first.generation) + 2n);
});

test("a later life goes on without control, and refuses an epoch that the former one knew to be over", async () => {
  aLife().take(aTable(10));
  await limitIs(10);
  const before = await written();
  // What is the same is not written again.
  await serves(before.generation);
  const same = aLife();
  expect(await same.reachable(databaseId, network, AbortSignal.timeout(60_000))).toBe(true);
  expect((await written()).generation).toBe(before.generation);
  const tables = aLife();
  bridges = [{ ...network, address: "10.213.0.33" }];
  tables.wake();
  await waitFor("the other bridge", async () => (await written()).entries[0]?.bridges[0] === "10.213.0.33");
  expect(BigInt((await written()).generation)).toBeGreaterThan(BigInt(before.generation));
  tables.take(aTable(30, 2n));
  tables.take(aTable(40));
  await limitIs(40);
  expect((await written()).entries[0]?.epoch).toBe("3");
});

test("what is there stays without the journal, until control says something, and is followed by a higher generation", async () => {
  aLife().take(aTable(10));
  await limitIs(10);
  const before = await written();
  settings.clear();
  await serves("41");
  const tables = aLife();
  expect(await tables.reachable(databaseId, network, AbortSignal.timeout(60_000))).toBe(true);
  expect(await written()).toEqual(before);
  tables.take(aTable(20));
  await limitIs(20);
  expect((await written()).generation).toBe("42");
});

test("who is gone is told to the proxy, also by a later life without control, and stays without the journal", async () => {
  const goneId = "018f3a6e-4f00-7000-8000-00000000000b";
  const isTold = (ids: string[]) =>
    waitFor(`${ids.length} gone`, async () => String((await dir.readGone())?.ids) === String(ids));
  aLife().take(create(DatabaseTableSchema, { goneIds: [goneId] }));
  await isTold([goneId]);
  await rm(join(path, databaseProxyFiles.gone));
  aLife();
  await isTold([goneId]);
  settings.clear();
  laid = null;
  const tables = aLife();
  await waitFor("a look", () => laid !== null);
  await isTold([goneId]);
  tables.take(create(DatabaseTableSchema));
  await isTold([]);
});

test("doors are there for the copies of the table that are kept here, and nobody's go before control said which", async () => {
  const copyId = "018f3a6e-4f00-7000-8000-000000000002";
  const tables = aLife();
  await waitFor("a look", async () => (await written()).generation !== "none");
  expect(laid).toEqual([]);
  expect(kept).toBeNull();
  const elsewhere = { copyId: databaseId, nodeId: "018f3a6e-4f00-7000-8000-00000000000b" };
  tables.take(aTable(10, 3n, [{ copyId, nodeId }, elsewhere]));
  await waitFor("doors", () => kept !== null && kept.length > 0);
  expect([laid, kept]).toEqual([[copyId], [copyId]]);
  tables.take(aTable(10));
  await waitFor("no doors", () => kept?.length === 0);
  expect(laid).toEqual([]);
});

test("the way to the proxy of another machine is open before this one's is told of it", async () => {
  const tables = aLife();
  tables.take(aTable(10));
  await limitIs(10);
  expect(opened).toEqual([]);
  const before = (await written()).generation;
  const elsewhere = aTable(20);
  for (const entry of elsewhere.entries) entry.nodeId = "018f3a6e-4f00-7000-8000-00000000000b";
  tables.take(elsewhere);
  await limitIs(20);
  expect(opened).toEqual([before]);
});

test("a database is reachable once the proxy has a table that lets the network in", async () => {
  const tables = aLife();
  const within = new AbortController();
  let isReached: boolean | null = null;
  const waiting = tables.reachable(databaseId, network, within.signal).then((reached) => {
    isReached = reached;
  });
  tables.take(aTable(10));
  await limitIs(10);
  expect(isReached).toBeNull();
  await serves((await written()).generation);
  await waiting;
  expect(isReached).toBe(true);
  within.abort();
  expect(await tables.reachable(databaseId, { ...network, channel: "preview" }, within.signal)).toBe(false);
});
