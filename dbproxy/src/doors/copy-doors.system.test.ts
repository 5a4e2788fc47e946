import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { DatabaseProxy } from "../start.ts";
import { aBranch, anEntry } from "../testing/branch.ts";
import { anAuthority, type TestAuthority } from "../testing/certificates.ts";
import { spawnProxy } from "../testing/child.ts";
import { endOf, pgOutcome } from "../testing/pg-client.ts";
import { startPostgres, type TestPostgres } from "../testing/postgres.ts";
import { aPlace, bridge, type Place, startProxy } from "../testing/proxy.ts";
import { waitFor } from "../testing/wait-for.ts";

const [here, there, stranger] = [
  ...["7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b", "8e2f3a4b-5c6d-4e7f-9a0b-1c2d3e4f5a6b"],
  "1a2b3c4d-5e6f-4a7b-8c9d-0e1f2a3b4c5d",
] as const;
const [copyId, otherCopyId] = ["9f3a4b5c-6d7e-4f80-8b1c-2d3e4f5a6b7c", "0a1b2c3d-4e5f-4061-8273-8495a6b7c8d9"] as const;
const branch = aBranch();
const app = bridge(1);
const [peerHost, peerPort] = [bridge(5), 27_434];
let server: TestPostgres;
let authority: TestAuthority;
let root: string;
/** Where the copy is kept. */
let near: Place;
/** Where the server is. */
let far: Place;
let proxies: DatabaseProxy[];

const doorOf = (id: string) => join(root, id.slice(0, 8), ".s.PGSQL.5432");
type Rest = Partial<Pick<DatabaseProxyEntry, "epoch" | "state" | "connectionLimit" | "copies" | "bridges">>;
const copies = (nodeId: string = here) => [{ copyId, nodeId, door: null }];
const nearEntry = (rest: Rest = {}) =>
  anEntry(branch, {
    ...{ engine: "postgres", bridges: [], at: { nodeId: there, host: peerHost, port: peerPort } },
    copies: [{ copyId, nodeId: here, door: doorOf(copyId) }],
    ...rest,
  });
const farEntry = (rest: Rest = {}) =>
  anEntry(branch, {
    ...{ engine: "postgres", bridges: [app], at: { socket: server.socketPath }, copies: copies() },
    ...rest,
  });

beforeAll(async () => {
  server = await startPostgres();
  await server.add(branch);
  await server.admin("create role svc_keeper login replication password 'Secret-of-the-keeper'");
  authority = await anAuthority();
});
afterAll(() => server?.[Symbol.asyncDispose]());
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "svc-doors-"));
  for (const id of [copyId, otherCopyId]) await mkdir(dirname(doorOf(id)));
  near = await aPlace();
  far = await aPlace({ SVC_DBPROXY_PEER_LISTEN: `${peerHost}:${peerPort}` });
  await authority.certify(near.dir, { id: here });
  await authority.certify(far.dir, { id: there });
  proxies = [await startProxy(near), await startProxy(far)];
});
afterEach(async () => {
  for (const each of [...proxies, near, far]) await each[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

/** The keeper of a copy, as it logs in by its door. */
async function keeper(id: string = copyId): Promise<pg.Client> {
  const client = new pg.Client({
    ...{ host: dirname(doorOf(id)), user: "svc_keeper", password: "Secret-of-the-keeper", database: "postgres" },
  });
  client.on("error", () => {});
  await client.connect();
  return client;
}
/** SQLSTATE of what it is refused with; "in" when it is not; "nowhere" when nobody listens. */
async function outcome(id: string = copyId): Promise<string> {
  try {
    await (await keeper(id)).end();
    return "in";
  } catch (error) {
    return error instanceof pg.DatabaseError ? (error.code ?? "no state") : "nowhere";
  }
}

test.each(["open", "held", "closed"] as const)(
  "a keeper reaches the server of another machine while it is %s",
  async (state) => {
    await Promise.all([near.put([nearEntry({ state })]), far.put([farEntry({ state })])]);
    const client = await keeper();
    expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
    await client.end();
  },
);

test("a keeper beside its server comes in without another proxy, and takes no place from apps", async () => {
  await far.put([farEntry({ connectionLimit: 1, copies: [{ copyId, nodeId: there, door: doorOf(copyId) }] })]);
  const clients = [await keeper(), await keeper()];
  expect((await far.state()).connections[0]?.open).toBe(0);
  expect(await pgOutcome(app, branch)).toBe("in");
  for (const client of clients) await client.end();
});

test("a copy has its own bound, whatever apps have", async () => {
  await Promise.all([near.put([nearEntry()]), far.put([farEntry()])]);
  const clients = await Promise.all(Array.from({ length: 8 }, () => keeper()));
  expect(await outcome()).toBe("53300");
  expect(await pgOutcome(app, branch)).toBe("in");
  for (const client of clients) await client.end();
  await waitFor(async () => (await outcome()) === "in");
});

test.each([
  { who: "a node whose copy it is not", certificate: { id: stranger } },
  { who: "a node of another cluster", certificate: { id: here, clusterId: stranger } },
] as const)("$who does not come in for a copy, whatever its own table says", async ({ certificate }) => {
  await authority.certify(near.dir, certificate);
  await Promise.all([near.put([nearEntry()]), far.put([farEntry()])]);
  await waitFor(async () => (await outcome()) === "57P03");
  await authority.certify(near.dir, { id: here });
  await waitFor(async () => (await outcome()) === "in");
});

test("who keeps another copy, or none, does not come in", async () => {
  await near.put([nearEntry()]);
  for (const named of [[], copies(stranger), [{ copyId: otherCopyId, nodeId: here, door: null }]]) {
    await far.put([farEntry({ copies: named })]);
    expect(await outcome()).toBe("57P03");
  }
});

test.each([
  { when: "the server's machine drops the copy", change: () => far.put([farEntry({ copies: [] })]) },
  {
    when: "the server's machine gives it to another node",
    change: () => far.put([farEntry({ copies: copies(stranger) })]),
  },
  { when: "the server is another", change: () => far.put([farEntry({ epoch: "2" })]) },
  { when: "its own machine drops the copy", change: () => near.put([nearEntry({ copies: [] })]) },
  { when: "its own machine hears of another server", change: () => near.put([nearEntry({ epoch: "2" })]) },
])("a keeper's connection ends when $when", async ({ change }) => {
  await Promise.all([near.put([nearEntry()]), far.put([farEntry()])]);
  const client = await keeper();
  const ended = endOf(client);
  // That apps are let in no more ends none.
  await far.put([farEntry({ state: "closed", bridges: [] })]);
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await change();
  await ended;
});

test("there is a door for each copy that is kept here, for its group, and only as long", async () => {
  const two = nearEntry().copies.concat({ copyId: otherCopyId, nodeId: here, door: doorOf(otherCopyId) });
  await Promise.all([near.put([nearEntry({ copies: two })]), far.put([farEntry()])]);
  expect((await stat(doorOf(copyId))).mode & 0o777).toBe(0o660);
  // The server's machine has not heard of it yet.
  expect([await outcome(), await outcome(otherCopyId)]).toEqual(["in", "57P03"]);
  await near.put([nearEntry()]);
  expect([await outcome(), await outcome(otherCopyId)]).toEqual(["in", "nowhere"]);
  expect(await readdir(dirname(doorOf(otherCopyId)))).toEqual([]);
});

test("a door opens as soon as its directory is there, and again when somebody took it away", async () => {
  await rm(dirname(doorOf(copyId)), { recursive: true });
  await Promise.all([near.write([nearEntry()]), far.put([farEntry()])]);
  await waitFor(async () => (await near.state()).generation === "1");
  expect(await outcome()).toBe("nowhere");
  for (const _ of [1, 2]) {
    await mkdir(dirname(doorOf(copyId)));
    await waitFor(async () => (await outcome()) === "in");
    await rm(dirname(doorOf(copyId)), { recursive: true });
  }
});

test("a process that takes over has the door, also after one that was killed, and the one before keeps its connections", async () => {
  await Promise.all([near.put([nearEntry()]), far.put([farEntry()])]);
  await proxies[0]?.[Symbol.asyncDispose]();
  const killed = await spawnProxy(near);
  await waitFor(async () => (await outcome()) === "in");
  killed.kill("SIGKILL");
  await killed.exit;
  await using first = await spawnProxy(near);
  const client = await keeper();
  await using _second = await spawnProxy(near);
  first.kill("SIGTERM");
  for (let count = 0; count < 10; count += 1) expect(await outcome()).toBe("in");
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  const ended = once(client, "end");
  await client.end();
  await ended;
  expect(await first.exit).toBe(0);
  expect(await outcome()).toBe("in");
  // Nothing is left of the names under which they were made.
  expect(await readdir(dirname(doorOf(copyId)))).toEqual([".s.PGSQL.5432"]);
});
