import { once } from "node:events";
import { connect } from "node:net";
import { run } from "@svc/runtime/command";
import { spawnProgram } from "@svc/runtime/programs";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DatabaseProxy } from "../start.ts";
import { aBranch, anEntry, type Branch } from "../testing/branch.ts";
import { cancelAt, endOf, pgClient, pgOutcome } from "../testing/pg-client.ts";
import { startPostgres, type TestPostgres } from "../testing/postgres.ts";
import { aPlace, bridge, type Place, ports, startProxy } from "../testing/proxy.ts";
import { waitFor } from "../testing/wait-for.ts";

const [home, elsewhere] = [bridge(1), bridge(2)];
const branch = aBranch();
const neighbour = aBranch();
let server: TestPostgres;
let place: Place;
let proxy: DatabaseProxy;

const entryOf = (of: Branch, at: string, rest: Partial<Parameters<typeof anEntry>[1]> = {}) =>
  anEntry(of, { engine: "postgres", bridges: [at], at: { socket: server.socketPath }, ...rest });
const putUsual = (rest: Parameters<typeof entryOf>[2] = {}) =>
  place.put([entryOf(branch, home, rest), entryOf(neighbour, elsewhere)]);
const countsOf = async ({ id }: Branch) =>
  (await place.state()).connections.find(({ databaseId }) => databaseId === id) ?? null;
const isAsleep = async () =>
  (await server.admin("select 1 from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'"))
    .rowCount === 1;
const untilOpen = (of: Branch, open: number) => waitFor(async () => (await countsOf(of))?.open === open);

beforeAll(async () => {
  server = await startPostgres();
  await server.add(branch);
  await server.add(neighbour);
  place = await aPlace({ SVC_DBPROXY_SERVER_SECONDS: "2" });
  proxy = await startProxy(place);
  await putUsual();
});
afterAll(async () => {
  await proxy?.[Symbol.asyncDispose]();
  await place?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

describe("who is let in", () => {
  const others = { user: neighbour.role, password: neighbour.password, database: neighbour.database };
  test.each([
    { when: "everything is right", state: "in" },
    { when: "the password is wrong", with: { password: "Wrong" }, state: "28P01" },
    { when: "there is no such user", with: { user: "svc_nobody" }, state: "28000" },
    { when: "it is the platform's own user", with: { user: "svc_admin" }, state: "28000" },
    { when: "the database is another", with: { database: "postgres" }, state: "3D000" },
    { when: "the user and the database are those of another bridge", with: others, state: "28000" },
    { when: "it wants to replicate", with: { replication: "database" }, state: "0A000" },
  ])("when $when: $state", async ({ with: rest, state }) => {
    expect(await pgOutcome(home, branch, rest)).toBe(state);
  });

  test("a bridge's own branch alone is behind it", async () => {
    expect(await pgOutcome(elsewhere, neighbour)).toBe("in");
    expect(await pgOutcome(elsewhere, branch)).toBe("28000");
  });

  test("failed logins are counted, and those that the server never saw are not", async () => {
    await pgOutcome(elsewhere, neighbour, { user: "svc_nobody" });
    await pgOutcome(elsewhere, neighbour, { password: "Wrong" });
    await waitFor(async () => (await countsOf(neighbour))?.failedLogins === 1);
  });

  test("who insists on TLS is told that there is none", async () => {
    await expect(pgClient(home, branch, { ssl: true })).rejects.toThrow("does not support SSL");
  });

  test.each([
    { what: "nothing of Postgres's", bytes: Buffer.from("GET / HTTP/1.1\r\n\r\n") },
    { what: "a packet that is too long", bytes: Buffer.from([0, 0, 0x40, 0, 0, 3, 0, 0]) },
    { what: "a packet without a user", bytes: Buffer.from([0, 0, 0, 9, 0, 3, 0, 0, 0]) },
  ])("$what is refused in words that a client understands", async ({ bytes }) => {
    const socket = connect(ports.postgres, home);
    socket.write(bytes);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString("latin1")).toMatch(/^E.*C08P01\0/s);
    await once(socket.resume(), "end");
    socket.destroy();
  });
});

describe("what passes", () => {
  test("prepared statements, notifications and errors of pg", async () => {
    const client = await pgClient(home, branch);
    const heard: string[] = [];
    client.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await client.query("listen news");
    const add = { name: "add", text: "select $1::int + $2::int as sum" };
    expect((await client.query({ ...add, values: [1, 2] })).rows).toEqual([{ sum: 3 }]);
    expect((await client.query({ ...add, values: [20, 22] })).rows).toEqual([{ sum: 42 }]);
    await expect(client.query("select * from nothing_there")).rejects.toMatchObject({ code: "42P01" });
    const other = await pgClient(home, branch);
    await other.query("select pg_notify('news', 'hello')");
    await waitFor(() => heard.includes("hello"));
    await Promise.all([client.end(), other.end()]);
  });

  test("pipelined queries and notifications of postgres.js", async () => {
    const { role: username, password, database } = branch;
    const sql = postgres({ ...{ host: home, port: ports.postgres, username, password, database }, max: 2 });
    const heard: string[] = [];
    await sql.listen("postgres_js", (payload) => heard.push(payload));
    const sums = await Promise.all([1, 2, 3, 4, 5].map((number) => sql`select ${number}::int * 2 as twice`));
    expect(sums.map(([row]) => row?.["twice"])).toEqual([2, 4, 6, 8, 10]);
    await sql.notify("postgres_js", "hello");
    await waitFor(() => heard.includes("hello"));
    await sql.end();
  });

  test("50 MB in and out again by psql, which asks for TLS and goes on without", async () => {
    const env = { PATH: process.env["PATH"], PGPASSWORD: branch.password };
    const target = `host=${home} port=${ports.postgres} user=${branch.role} dbname=${branch.database} sslmode=prefer`;
    const psql = (command: string) =>
      run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", target, "-c", command], { env });
    await psql("create table big (line text)");
    const line = `${"x".repeat(99)}\n`;
    const copying = spawnProgram(["psql", "-X", "-q", "-d", target, "-c", "copy big from stdin"], {
      ...{ env, stdio: ["pipe", "ignore", "inherit"] as const },
    });
    const [block, blocks] = [line.repeat(5_000), 100];
    for (let sent = 0; sent < blocks; sent += 1) {
      if (!copying.stdin.write(block)) await once(copying.stdin, "drain");
    }
    copying.stdin.end();
    expect(await once(copying, "exit")).toEqual([0, null]);
    expect((await psql("select count(*), sum(length(line)) from big")).stdout.trim()).toBe("500000|49500000");
    const reading = spawnProgram(["psql", "-X", "-q", "-d", target, "-c", "copy big to stdout"], {
      ...{ env, stdio: ["ignore", "pipe", "inherit"] as const },
    });
    let bytes = 0;
    for await (const chunk of reading.stdout) bytes += (chunk as Buffer).length;
    expect(bytes).toBe(blocks * block.length);
    await psql("drop table big");
  });

  test("a query is cancelled by whoever got its key, at its own bridge", async () => {
    const client = await pgClient(home, branch);
    const sleeping = client.query("select pg_sleep(600)");
    sleeping.catch(() => {});
    await waitFor(isAsleep);
    await cancelAt(elsewhere, client);
    expect(await isAsleep()).toBe(true);
    await cancelAt(home, client);
    await expect(sleeping).rejects.toMatchObject({ code: "57014" });
    await client.end();
  });

  test("a cancelled query needs no free connection", async () => {
    await putUsual({ connectionLimit: 1 });
    await untilOpen(branch, 0);
    const client = await pgClient(home, branch);
    expect(await pgOutcome(home, branch)).toBe("53300");
    const sleeping = client.query("select pg_sleep(600)");
    sleeping.catch(() => {});
    await waitFor(isAsleep);
    await cancelAt(home, client);
    await expect(sleeping).rejects.toMatchObject({ code: "57014" });
    await client.end();
    await putUsual();
  });

  test("who leaves in the middle leaves no session behind", async () => {
    await untilOpen(branch, 0);
    const client = await pgClient(home, branch);
    await untilOpen(branch, 1);
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
    await untilOpen(branch, 0);
    await waitFor(async () => {
      const { rowCount } = await server.admin(`select 1 from pg_stat_activity where usename = '${branch.role}'`);
      return rowCount === 0;
    });
  });
});

describe("what the table says", () => {
  test("a held branch's client waits, and is let in when it opens", async () => {
    await putUsual({ state: "held" });
    const outcome = pgOutcome(home, branch);
    await putUsual();
    expect(await outcome).toBe("in");
  });

  test("a session that is there stays while its branch is held, and ends when it is closed", async () => {
    const client = await pgClient(home, branch);
    await putUsual({ state: "held" });
    expect((await client.query("select 1")).rowCount).toBe(1);
    const ended = endOf(client);
    await putUsual({ state: "closed" });
    await ended;
    expect(await pgOutcome(home, branch)).toBe("57P03");
    await putUsual();
    expect(await pgOutcome(home, branch)).toBe("in");
  });

  test("a session ends with its epoch, and with its bridge", async () => {
    const byEpoch = await pgClient(home, branch);
    const byEpochEnds = endOf(byEpoch);
    await putUsual({ epoch: "2" });
    await byEpochEnds;
    const byBridge = await pgClient(home, branch);
    const byBridgeEnds = endOf(byBridge);
    await putUsual({ epoch: "2", bridges: [] });
    await byBridgeEnds;
    await putUsual();
  });

  test("a branch that is nowhere is refused at once", async () => {
    await putUsual({ at: null });
    expect(await pgOutcome(home, branch)).toBe("57P03");
    await putUsual();
  });

  test("so many at once as the table says, and again when one has left", async () => {
    await putUsual({ connectionLimit: 2 });
    await untilOpen(branch, 0);
    const [first, second] = [await pgClient(home, branch), await pgClient(home, branch)];
    expect(await pgOutcome(home, branch)).toBe("53300");
    await first.end();
    await untilOpen(branch, 1);
    expect(await pgOutcome(home, branch)).toBe("in");
    await second.end();
    await putUsual();
  });

  test("a listener comes with its bridge's entry and goes with it", async () => {
    const third = bridge(3);
    await putUsual({ bridges: [home, third] });
    await waitFor(async () => (await pgOutcome(third, branch)) === "in");
    await putUsual();
    await waitFor(async () => (await pgOutcome(third, branch)).includes("ECONNREFUSED"));
  });
});

describe("what the server does", () => {
  test("one that is gone is refused in words, and served again when it is back", async () => {
    const client = await pgClient(home, branch);
    const ended = endOf(client);
    await server.stop();
    await ended;
    expect(await pgOutcome(home, branch)).toBe("57P03");
    await server.start();
    expect(await pgOutcome(home, branch)).toBe("in");
  });

  test("one that stands still is not waited for", async () => {
    process.kill(server.pid, "SIGSTOP");
    try {
      expect(await pgOutcome(home, branch)).toBe("57P03");
    } finally {
      process.kill(server.pid, "SIGCONT");
    }
    expect(await pgOutcome(home, branch)).toBe("in");
  });

  test("a crowd of new connections of one branch is slowed down, and another branch's is not", async () => {
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => pgOutcome(home, branch)));
    expect(outcomes).toContain("53300");
    expect(await pgOutcome(elsewhere, neighbour)).toBe("in");
  });
});
