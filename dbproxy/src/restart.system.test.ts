import { writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tableFile } from "./table/load.ts";
import { aBranch, anEntry } from "./testing/branch.ts";
import { spawnProxy } from "./testing/child.ts";
import { endOf, pgClient, pgOutcome } from "./testing/pg-client.ts";
import { startPostgres, type TestPostgres } from "./testing/postgres.ts";
import { aPlace, bridge } from "./testing/proxy.ts";
import { waitFor } from "./testing/wait-for.ts";

const branch = aBranch();
const app = bridge(1);
let server: TestPostgres;
beforeAll(async () => {
  server = await startPostgres();
  await server.add(branch);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const entry = (rest: { state?: "open" | "closed" } = {}) =>
  anEntry(branch, { engine: "postgres", bridges: [app], at: { socket: server.socketPath }, ...rest });

test("a proxy that is killed drops its sessions, and the next one serves from the table on disk", async () => {
  await using place = await aPlace();
  await place.write([entry()]);
  const first = await spawnProxy(place);
  const client = await pgClient(app, branch);
  const ended = endOf(client);
  first.kill("SIGKILL");
  await ended;
  await first.exit;
  await using _second = await spawnProxy(place);
  expect(await pgOutcome(app, branch)).toBe("in");
});

test("a client that does not read holds up its server, and takes no memory", async () => {
  await using place = await aPlace();
  await place.write([entry()]);
  await using proxy = await spawnProxy(place);
  const client = await pgClient(app, branch);
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  const before = await proxy.memoryMb();
  const much = client.query("select repeat('x', 1000000) from generate_series(1, 400)");
  much.catch(() => {});
  stream.pause();
  await waitFor(async () => {
    const { rowCount } = await server.admin("select 1 from pg_stat_activity where wait_event = 'ClientWrite'");
    return rowCount === 1;
  });
  expect((await proxy.memoryMb()) - before).toBeLessThan(64);
  stream.destroy();
  await waitFor(async () => {
    const { rowCount } = await server.admin(`select 1 from pg_stat_activity where usename = '${branch.role}'`);
    return rowCount === 0;
  });
});

test("another process takes over, and the sessions of the one before end by themselves", async () => {
  await using place = await aPlace();
  await place.write([entry()]);
  await using first = await spawnProxy(place);
  const client = await pgClient(app, branch);
  await using second = await spawnProxy(place);
  first.kill("SIGTERM");
  // New connections are the second one's, without a gap; and the state is what it says.
  for (let count = 0; count < 10; count += 1) await waitFor(async () => (await pgOutcome(app, branch)) === "in");
  expect((await place.state()).pid).toBe(second.pid);
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await client.end();
  expect(await first.exit).toBe(0);
});

test("one that drains still ends the sessions of a branch that is closed", async () => {
  await using place = await aPlace();
  await place.write([entry()]);
  await using first = await spawnProxy(place);
  const client = await pgClient(app, branch);
  const ended = endOf(client);
  first.kill("SIGTERM");
  await place.write([entry({ state: "closed" })]);
  await ended;
  expect(await first.exit).toBe(0);
});

test("one that drains is over when its time is, and a table that is half written or older changes nothing", async () => {
  await using place = await aPlace({ SVC_DBPROXY_DRAIN_SECONDS: "0.5" });
  await place.write([entry()]);
  const generation = await place.write([entry()]);
  await using proxy = await spawnProxy(place);
  for (const text of [
    '{"generation":"9","entr',
    JSON.stringify({ generation: "1", entries: [] }),
    '{"generation":"10"}',
  ]) {
    await writeFile(tableFile(place.dir), text);
    expect(await pgOutcome(app, branch)).toBe("in");
  }
  expect((await place.state()).generation).toBe(generation);
  const client = await pgClient(app, branch);
  const ended = endOf(client);
  proxy.kill("SIGTERM");
  await ended;
  expect(await proxy.exit).toBe(0);
});
