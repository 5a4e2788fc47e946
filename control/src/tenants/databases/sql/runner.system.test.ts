import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import type { AddressInfo, Server } from "node:net";
import { connect, createServer } from "node:net";
import { Duplex } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startPostgres } from "../testing/postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner, whileSleeping } from "../testing/server.ts";
import type { SqlRunner, SqlTarget } from "./runner.ts";

const login = { user: "r_0123456789abcdef", password: "secret-of-the-branch", database: "d_0123456789abcdef" };
const asked = { sql: "select 1", rollback: false, readOnly: false };

let runner: SqlRunner;
beforeAll(() => {
  runner = testRunner();
});
afterAll(() => runner?.[Symbol.asyncDispose]());

/** A server that says `bytes` to whoever comes, and reads on. */
async function hostile(bytes: Buffer, { repeats = false, ends = false } = {}): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    const say = (): void => {
      let hasRoom = true;
      while (hasRoom && !socket.destroyed) {
        hasRoom = socket.write(bytes);
        if (!repeats) break;
      }
      if (ends) socket.end();
    };
    if (repeats) socket.on("drain", say);
    socket.resume();
    say();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

const targetAt = (server: Server, engine: SqlTarget["engine"]): SqlTarget => ({
  ...{ projectId: "p", ownerId: "o", engine, tenant: login, admin: login },
  async openLine() {
    const line = connect((server.address() as AddressInfo).port, "127.0.0.1");
    await once(line, "connect");
    return line;
  },
});

const message = (type: string, body: Buffer, length = body.length + 4): Buffer => {
  const header = Buffer.alloc(5);
  header.write(type);
  header.writeInt32BE(length, 1);
  return Buffer.concat([header, body]);
};
const signIn = Buffer.concat([message("R", Buffer.from([0, 0, 0, 0])), message("Z", Buffer.from("I"))]);
const greeting = Buffer.concat([
  Buffer.from([10]),
  Buffer.from("11.8.0-MariaDB\0"),
  Buffer.from([1, 0, 0, 0]),
  Buffer.from("abcdefgh\0"),
  Buffer.from([0xff, 0xf7, 45, 2, 0, 0xff, 0x81, 21]),
  Buffer.alloc(10),
  Buffer.from("abcdefghijkl\0mysql_native_password\0"),
]);
const packet = (sequence: number, body: Buffer, length = body.length): Buffer =>
  Buffer.concat([Buffer.from([length & 0xff, (length >> 8) & 0xff, (length >> 16) & 0xff, sequence]), body]);
const welcome = Buffer.concat([packet(0, greeting), packet(2, Buffer.from([0, 0, 0, 2, 0, 0, 0]))]);
const noise = Buffer.from(Array.from({ length: 100_000 }, (_, at) => (at * 7919 + (at >> 3)) % 256));

describe.each(["postgres", "mariadb"] as const)("a hostile server of %s", (engine) => {
  const hello = engine === "postgres" ? signIn : welcome;
  test.each([
    { says: "noise", bytes: noise },
    { says: "zeros without end", bytes: Buffer.alloc(65_536), repeats: true },
    { says: "noise without end", bytes: noise, repeats: true },
    { says: "noise after the login", bytes: Buffer.concat([hello, noise]) },
    { says: "noise without end after the login", bytes: Buffer.concat([hello, noise]), repeats: true },
    { says: "nothing, and goes", bytes: Buffer.alloc(1), ends: true },
    { says: "goodbye after the login", bytes: hello, ends: true },
    { says: "a length below nothing", bytes: message("R", Buffer.from("abcd"), -5) },
    { says: "a length without end", bytes: Buffer.concat([hello, message("D", noise, 0x7fffffff)]), repeats: true },
    {
      says: "columns without number",
      bytes: Buffer.concat([
        hello,
        message("T", Buffer.from([0xff, 0xff, 1])),
        message("D", Buffer.from([0xff, 0xff])),
      ]),
    },
    {
      says: "a packet with more columns than bytes",
      bytes: Buffer.concat([hello, packet(1, Buffer.from([0xfd, 0xff, 0xff, 0xff])), noise]),
    },
    {
      says: "that it wants a file",
      bytes: Buffer.concat([hello, packet(1, Buffer.from("\xfb/etc/passwd", "latin1"))]),
    },
  ])(
    "that says $says ends in a refusal, and the next statement is well",
    { timeout: 60_000 },
    async ({ bytes, ...how }) => {
      const server = await hostile(bytes, how);
      try {
        await expect(runner.ask(targetAt(server, engine), "query", asked)).rejects.toMatchObject({
          code: expect.stringMatching(/^(QUERY_ERROR|DATABASE_NOT_READY)$/),
        });
      } finally {
        server.close();
      }
    },
  );
});

/** Processes that this one started to speak SQL. */
async function children(): Promise<number[]> {
  const found: number[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const [stat, line] = await Promise.all(
      ["stat", "cmdline"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")),
    );
    const [, parent] = stat?.slice(stat.lastIndexOf(")") + 2).split(" ") ?? [];
    if (Number(parent) === process.pid && line?.includes("program/main.ts")) found.push(Number(pid));
  }
  return found;
}

describe("children", () => {
  let server: TestServer;
  let branch: TestBranch;
  let target: SqlTarget;
  beforeAll(async () => {
    server = await startPostgres();
    branch = await newBranch(runner, server);
    ({ target } = branch);
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  test("that are killed are replaced", async () => {
    const { sleeping } = await whileSleeping(runner, branch);
    const refused = expect(sleeping).rejects.toMatchObject({ code: "QUERY_ERROR" });
    for (const pid of await children()) process.kill(pid, "SIGKILL");
    await refused;
    expect((await runner.ask(target, "query", asked)).given.rows).toEqual([[1]]);
  });

  test("that are killed while they start are replaced", async () => {
    // Read at once: looking through all processes takes longer than a start.
    const own = () => readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ");
    const before = new Set(own());
    await using fresh = testRunner();
    const answer = fresh.ask(target, "query", asked);
    const starting = own().filter((pid) => !before.has(pid));
    for (const pid of starting) process.kill(Number(pid), "SIGKILL");
    expect(starting).not.toEqual([]);
    expect((await answer).given.rows).toEqual([[1]]);
  });

  test("are told no secret by their command line or environment", async () => {
    await runner.ask(target, "query", asked);
    for (const pid of await children()) {
      const texts = await Promise.all(
        ["cmdline", "environ"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")),
      );
      expect(texts.join()).not.toContain(target.tenant?.password);
      expect(texts.join()).not.toContain(target.admin.password);
    }
  });

  test("may be used again and again", { timeout: 120_000 }, async () => {
    for (let n = 0; n < 140; n += 1) {
      const { given } = await runner.ask(target, "query", { ...asked, sql: `select ${n}` });
      expect(given.rows).toEqual([[n]]);
    }
    expect((await children()).length).toBeLessThan(8);
  });

  test("of one owner's projects leave some to others, and of all owners some to the platform", async () => {
    await using own = testRunner();
    const over = Promise.withResolvers<never>();
    over.promise.catch(() => {});
    const statements = (ownerId: string) =>
      Array.from({ length: 270 }, (_, n) =>
        own.ask(
          { ...target, projectId: `${ownerId}-${n % 10}`, ownerId, openLine: () => over.promise },
          "query",
          asked,
        ),
      );
    const held = Promise.allSettled(statements("greedy"));
    expect((await own.ask(target, "query", asked)).given.rows).toEqual([[1]]);
    const more = Promise.allSettled(["greedier", "greediest"].flatMap(statements));
    const { database, role } = branch;
    const { given } = await own.ask({ ...target, ownerId: null }, "usage", { database, role });
    expect(given.activeConnections).toBe(0);
    over.reject(new Error("the node is away"));
    await Promise.all([held, more]);
  });

  test("end with the runner", async () => {
    const before = new Set(await children());
    const other = testRunner();
    await other.ask(target, "query", asked);
    const own = (await children()).filter((pid) => !before.has(pid));
    await other[Symbol.asyncDispose]();
    const left = new Set(await children());
    expect(own.filter((pid) => left.has(pid))).toEqual([]);
  });
});

test("a line that does not open is a database that is not ready", async () => {
  const target: SqlTarget = {
    ...{ projectId: "p", ownerId: "o", engine: "postgres", tenant: login, admin: login },
    openLine: () => Promise.reject(new Error("the node is away")),
  };
  await expect(runner.ask(target, "query", asked)).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
});

test("one owner cannot take the room of all, and is told so when too many wait", { timeout: 120_000 }, async () => {
  const openLine = async () => new Duplex({ read() {}, write: (_, __, done) => done() });
  const stuck: SqlTarget = {
    ...{ projectId: "p", ownerId: "greedy", engine: "postgres", tenant: login, admin: login },
    openLine,
  };
  const all = Array.from({ length: 200 }, () =>
    runner.ask(stuck, "query", asked).catch((error: { code: string }) => error.code),
  );
  // Those that find no place are told at once.
  expect(await Promise.race(all)).toBe("RATE_LIMITED");
  await runner[Symbol.asyncDispose]();
  const codes = await Promise.allSettled(all);
  expect(codes).toHaveLength(200);
  runner = testRunner();
});
