import { once } from "node:events";
import { connect } from "node:net";
import { run } from "@svc/runtime/command";
import { type ConnectionOptions, createConnection } from "mysql2/promise";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DatabaseProxy } from "../start.ts";
import { aBranch, anEntry, type Branch } from "../testing/branch.ts";
import { startMariadb, type TestMariadb } from "../testing/mariadb.ts";
import { aPlace, bridge, type Place, ports, startProxy } from "../testing/proxy.ts";
import { waitFor } from "../testing/wait-for.ts";
import { greeted } from "./capabilities.ts";
import { readGreeting } from "./greeting.ts";
import { headBytes } from "./packet.ts";

const [home, elsewhere] = [bridge(1), bridge(2)];
const branch = aBranch();
const neighbour = aBranch();
let server: TestMariadb;
let place: Place;
let proxy: DatabaseProxy;

const entryOf = (of: Branch, at: string, rest: Partial<Parameters<typeof anEntry>[1]> = {}) =>
  anEntry(of, { engine: "mariadb", bridges: [at], at: { socket: server.socketPath }, ...rest });
const putUsual = (rest: Parameters<typeof entryOf>[2] = {}) =>
  place.put([entryOf(branch, home, rest), entryOf(neighbour, elsewhere)]);
const countsOf = async ({ id }: Branch) =>
  (await place.state()).connections.find(({ databaseId }) => databaseId === id) ?? null;

const optionsOf = (host: string, { role, password, database }: Branch): ConnectionOptions => ({
  ...{ host, port: ports.mariadb, user: role, password, database },
});

async function client(host: string, of: Branch, rest: ConnectionOptions = {}) {
  const connection = await createConnection({ ...optionsOf(host, of), ...rest });
  connection.on("error", () => {});
  return connection;
}

/** Number of the error that a login is refused with, and "in" for one that is not. */
async function outcomeOf(host: string, of: Branch, rest: ConnectionOptions = {}): Promise<number | string> {
  try {
    await (await client(host, of, rest)).end();
    return "in";
  } catch (error) {
    return error instanceof Error && "errno" in error ? Number(error.errno) : String(error);
  }
}

const rowsOf = async (connection: Awaited<ReturnType<typeof client>>, text: string, values?: unknown[]) =>
  (await connection.query(text, values))[0];

beforeAll(async () => {
  server = await startMariadb();
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
    { when: "everything is right", number: "in" },
    { when: "it names no database", with: { database: "" }, number: "in" },
    { when: "the password is wrong", with: { password: "Wrong" }, number: 1045 },
    { when: "there is no password", with: { password: "" }, number: 1045 },
    { when: "there is no such user", with: { user: "svc_nobody" }, number: 1045 },
    { when: "it is the platform's own user", with: { user: "root" }, number: 1045 },
    { when: "the database is another", with: { database: "mysql" }, number: 1044 },
    { when: "the user and the database are those of another bridge", with: others, number: 1045 },
  ])("when $when: $number", async ({ with: rest, number }) => {
    expect(await outcomeOf(home, branch, rest)).toBe(number);
  });

  test("a bridge's own branch alone is behind it", async () => {
    expect(await outcomeOf(elsewhere, neighbour)).toBe("in");
    expect(await outcomeOf(elsewhere, branch)).toBe(1045);
  });

  test("failed logins are counted, and those that the server never saw are not", async () => {
    await outcomeOf(elsewhere, neighbour, { user: "svc_nobody" });
    await outcomeOf(elsewhere, neighbour, { password: "Wrong" });
    await waitFor(async () => (await countsOf(neighbour))?.failedLogins === 1);
  });

  test("who is in may log in again, and does not become somebody else", async () => {
    const { role: user, password, database } = branch;
    const again = await client(home, branch);
    await again.changeUser({ user, password, database });
    expect(await rowsOf(again, "select current_user() as who")).toEqual([{ who: `${user}@%` }]);
    await again.end();
    for (const other of ["root", neighbour.role]) {
      const connection = await client(home, branch);
      const changed = connection.changeUser({ user: other, password: "", database: "mysql" });
      await expect(changed).rejects.toMatchObject({ errno: 1045 });
      connection.destroy();
    }
  });

  test("what is no answer to the greeting is refused in words that a client understands", async () => {
    const socket = connect(ports.mariadb, home);
    await once(socket, "data");
    socket.write(Buffer.concat([Buffer.from([40, 0, 0, 1]), Buffer.alloc(40, 0xff)]));
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect([answer[3], answer[4], answer.readUInt16LE(5)]).toEqual([2, 0xff, 1043]);
    await once(socket.resume(), "end");
    socket.destroy();
  });
});

test("the server keeps all that a client may be promised before it is known", async () => {
  const socket = connect(server.socketPath);
  const [bytes] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  const greeting = readGreeting(bytes.subarray(headBytes));
  expect((greeting?.capabilities ?? 0n) & greeted).toBe(greeted);
});

describe("what passes", () => {
  test("prepared statements, many results and errors of mysql2", async () => {
    const connection = await client(home, branch, { multipleStatements: true });
    const [rows] = await connection.execute("select ? + ? as sum", [20, 22]);
    expect(rows).toEqual([{ sum: 42 }]);
    expect(await rowsOf(connection, "select 1 as a; select 2 as b")).toEqual([[{ a: 1 }], [{ b: 2 }]]);
    await expect(connection.query("select * from nothing_there")).rejects.toMatchObject({ errno: 1146 });
    await connection.ping();
    await connection.end();
  });

  // Clients of MySQL 8 begin with the other plugin, whatever they are greeted with.
  test.each(["mysql_native_password", "caching_sha2_password"])(
    "queries of a client that begins with %s",
    async (plugin) => {
      const env = { PATH: process.env["PATH"], MYSQL_PWD: branch.password };
      const about = [
        "-h",
        home,
        "-P",
        String(ports.mariadb),
        "-u",
        branch.role,
        `--default-auth=${plugin}`,
        branch.database,
      ];
      const mariadb = (text: string) => run(["mariadb", "--no-defaults", "-N", ...about, "-e", text], { env });
      expect((await mariadb("select 6 * 7; select database()")).stdout.split("\n").slice(0, 2)).toEqual([
        "42",
        branch.database,
      ]);
      await expect(mariadb("select * from nothing_there")).rejects.toThrow("1146");
    },
  );

  test("50 MB in and out again", async () => {
    const connection = await client(home, branch);
    await connection.query("create table big (id int primary key, body longblob)");
    const body = Buffer.alloc(10 * 1024 * 1024, "0123456789abcdef");
    for (let id = 0; id < 5; id += 1) await connection.query("insert into big values (?, ?)", [id, body]);
    const rows = (await rowsOf(connection, "select body from big order by id")) as { body: Buffer }[];
    expect(rows.map((row) => row.body.equals(body))).toEqual([true, true, true, true, true]);
    await connection.query("drop table big");
    await connection.end();
  });

  test("a query is killed by the number that the server gives", async () => {
    const [connection, other] = [await client(home, branch), await client(home, branch)];
    const [{ id }] = (await rowsOf(connection, "select connection_id() as id")) as [{ id: number }];
    const sleeping = connection.query("select sleep(600)");
    sleeping.catch(() => {});
    const isThere = `select 1 from information_schema.processlist where id = ${id} and info like '%sleep(600)%'`;
    await waitFor(async () => ((await server.admin(isThere)) as unknown[]).length === 1);
    await other.query(`kill query ${id}`);
    await expect(sleeping).rejects.toMatchObject({ errno: 1317 });
    // The session goes on, and the number in the greeting is nobody's.
    await expect(other.query(`kill ${connection.threadId}`)).rejects.toMatchObject({ errno: 1094 });
    expect(await rowsOf(connection, "select 1 as one")).toEqual([{ one: 1 }]);
    await Promise.all([connection.end(), other.end()]);
  });
});

describe("what the table says", () => {
  test("a held branch's client waits, and is let in when it opens", async () => {
    await putUsual({ state: "held" });
    const outcome = outcomeOf(home, branch);
    await putUsual();
    expect(await outcome).toBe("in");
  });

  test("a session ends when its branch is closed", async () => {
    const connection = await client(home, branch);
    const ended = once(connection, "error");
    await putUsual({ state: "closed" });
    await ended;
    expect(await outcomeOf(home, branch)).toBe(1053);
    await putUsual();
  });

  test("so many at once as the table says", async () => {
    await putUsual({ connectionLimit: 1 });
    await waitFor(async () => (await countsOf(branch))?.open === 0);
    const connection = await client(home, branch);
    expect(await outcomeOf(home, branch)).toBe(1040);
    await connection.end();
    await putUsual();
  });
});

test("a server that is gone or stands still is refused in words, and served again when it is back", async () => {
  process.kill(server.pid, "SIGSTOP");
  expect(await outcomeOf(home, branch)).toBe(1053);
  process.kill(server.pid, "SIGCONT");
  await server.stop();
  expect(await outcomeOf(home, branch)).toBe(1053);
  await server.start();
  expect(await outcomeOf(home, branch)).toBe("in");
});
