import { appendFile, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { type DatabaseEngine, databaseEngines, databaseNames } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { afterEach, describe, expect, test } from "vitest";
import { entryFailure } from "../databases/exit.ts";
import { createTestCopy, type TestCopy } from "../testing/copy.ts";
import { waitFor } from "../testing/wait.ts";
import { momentOf } from "./moment.ts";
import { createProofs } from "./proofs.ts";
import type { CopyStatus } from "./status.ts";

const opened: TestCopy[] = [];
async function aCopy(...made: Parameters<typeof createTestCopy>): Promise<TestCopy> {
  const copy = await createTestCopy(...made);
  opened.push(copy);
  return copy;
}
afterEach(async () => {
  for (const copy of opened.splice(0)) await copy[Symbol.asyncDispose]();
});

const follows = (copy: TestCopy) => copy.once("a copy that follows", ({ state }) => state === "following");
/** What was acknowledged before this call is in the copy afterwards. */
async function covers(copy: TestCopy): Promise<void> {
  const now = momentOf(systemClock.now().toISOString()) ?? "";
  await copy.once("a copy of now", ({ state, coveredAt }) => state === "following" && coveredAt > now);
}
/** Where the volume of a copy is. */
async function pathOf(copy: TestCopy): Promise<string> {
  const volume = (await copy.database.engine.listDatabaseVolumes()).find(({ of }) => of === "copy");
  return volume?.path ?? "";
}
/** Files of the first log of a copy, the oldest first. */
async function logFiles(copy: TestCopy): Promise<string[]> {
  const directory = join(await pathOf(copy), "logs/000001");
  const names = (await readdir(directory)).filter((name) => /^(?:binlog\.\d+|[0-9A-F]{24}.*)$/.test(name));
  return names.toSorted().map((name) => join(directory, name));
}
const proofRequest = (copy: TestCopy, engine: DatabaseEngine) => ({
  ...{ placementId: copy.copyId, labels: {}, copyId: copy.copyId, databaseId: copy.database.id, engine },
  image: copy.database.spec().image,
  timeoutSeconds: 300,
  limits: { memoryMb: 256, cpuMillicores: 0, pidsLimit: 100 },
  reserved: { memoryMb: 64, cpuMillicores: 100 },
  onStart: () => {},
});
const idsOf = async (copy: TestCopy): Promise<Set<number>> => {
  const text = await copy.sql("SELECT id FROM w ORDER BY id");
  return new Set(text.split("\n").filter(Boolean).map(Number));
};

/** A moment of a second in which nothing was written, once it is over. */
async function aMomentLater(): Promise<string | null> {
  const untilMs = systemClock.now().getTime() + 1_100;
  await waitFor("the next second", () => systemClock.now().getTime() > untilMs);
  const moment = momentOf(systemClock.now().toISOString());
  await waitFor("one more", () => systemClock.now().getTime() > untilMs + 1_100);
  return moment;
}

describe.each(databaseEngines)("a copy of a database on %s", (kind) => {
  test("has what was acknowledged when the server's machine is lost", async () => {
    const copy = await aCopy(kind);
    await copy.keep();
    await follows(copy);
    const writer = copy.write();
    await waitFor("a thousand rows", () => writer.acknowledged.length >= 1_000);
    await copy.lose();
    await writer.stop();
    const { coveredAt, position } = (await copy.status()) ?? { coveredAt: "", position: "" };
    expect(position).not.toBe("");
    await copy.database.engine.killContainer(copy.keeper, "SIGKILL");
    await copy.restore();
    await copy.database.serves();
    const there = await idsOf(copy);
    const lost = writer.acknowledged.filter(({ id }) => !there.has(id));
    // What is missing was acknowledged later than the copy told that it has everything.
    expect(lost.filter(({ atMs }) => atMs < Date.parse(coveredAt))).toEqual([]);
    // A keeper that follows is not behind by more than what was under way.
    expect(lost.length).toBeLessThanOrEqual(20);
    expect(there.size).toBeGreaterThanOrEqual(1_000 - 20);
  });

  test("is restored to the moment before a table was dropped, and refuses one that it does not have", async () => {
    const copy = await aCopy(kind);
    await copy.sql("INSERT INTO w (id) VALUES (1), (2), (3)");
    await copy.keep();
    await follows(copy);
    await copy.sql("INSERT INTO w (id) VALUES (4)");
    const until = await aMomentLater();
    await copy.sql("INSERT INTO w (id) VALUES (5)");
    await copy.sql("DROP TABLE w");
    await covers(copy);
    await copy.lose();
    await copy.restore(until);
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1, 2, 3, 4]);
    for (const moment of ["2020-01-01T00:00:00.000000Z", "2120-01-01T00:00:00.000000Z"]) {
      await copy.restore(moment);
      expect(entryFailure((await copy.database.ended()).exitCode)).toBe("DATABASE_COPY_UNCOVERED");
    }
  });

  test("goes on without a gap when its keeper is killed at any moment", async () => {
    const copy = await aCopy(kind);
    const writer = copy.write();
    await copy.keep();
    // Before, in the middle of and after the first base, and while it follows.
    for (const delayMs of [0, 300, 800, 1_500, 2_500, 4_000, 6_000]) {
      await new Promise<void>((resolve) => systemClock.after(delayMs, resolve));
      await copy.database.engine.killContainer(copy.keeper, "SIGKILL");
      await copy.keep();
    }
    await follows(copy);
    const rows = writer.acknowledged.length;
    await waitFor("more rows", () => writer.acknowledged.length > rows + 100);
    await copy.database.engine.killContainer(copy.keeper, "SIGKILL");
    await copy.keep();
    await writer.stop();
    await covers(copy);
    expect((await copy.status())?.bases.every(({ until }) => until === "")).toBe(true);
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    const there = await idsOf(copy);
    expect(writer.acknowledged.filter(({ id }) => !there.has(id))).toEqual([]);
  });

  test("is kept across restarts and crashes of the server, and of the way to it", async () => {
    const copy = await aCopy(kind);
    await copy.keep();
    await follows(copy);
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await copy.closeDoor();
    await copy.once("a keeper that is shut out", ({ problem }) => problem !== "");
    await copy.sql("INSERT INTO w (id) VALUES (2)");
    await copy.openDoor();
    await covers(copy);
    await copy.database.engine.killContainer(copy.database.name, "SIGKILL");
    await copy.database.ended();
    await copy.database.engine.startContainer(copy.database.name);
    await copy.database.serves();
    await copy.sql("INSERT INTO w (id) VALUES (3)");
    await copy.database.engine.stopContainer(copy.database.name, 60);
    await copy.database.engine.startContainer(copy.database.name);
    await copy.database.serves();
    await copy.sql("INSERT INTO w (id) VALUES (4)");
    await covers(copy);
    expect((await copy.status())?.bases).toHaveLength(1);
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1, 2, 3, 4]);
  });

  test("goes on while the branch is read-only, and afterwards", async () => {
    const copy = await aCopy(kind);
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await copy.keep();
    await follows(copy);
    await copy.database.run({ readOnly: true });
    await copy.database.serves();
    await covers(copy);
    await copy.keep({ baseEverySeconds: 1 });
    await copy.once("a base of a server that does not write", ({ bases }) => bases.length > 1);
    await copy.keep();
    await copy.database.run();
    await copy.database.serves();
    await copy.sql("INSERT INTO w (id) VALUES (2)");
    await covers(copy);
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1, 2]);
  });

  test("that was away for too long costs a new base, never the server's disk", async () => {
    const settings =
      kind === "postgres"
        ? ["-c", "max_slot_wal_keep_size=8MB", "-c", "max_wal_size=32MB", "-c", "min_wal_size=2MB"]
        : ["--max-binlog-size=1M", "--max-binlog-total-size=4M"];
    const copy = await aCopy(kind, settings);
    await copy.keep();
    await follows(copy);
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await covers(copy);
    await copy.database.engine.stopContainer(copy.keeper, 5);
    const before = (await copy.status())?.coveredAt;
    await copy.sql("CREATE TABLE big (t text)");
    const fill =
      kind === "postgres"
        ? "INSERT INTO big SELECT md5(random()::text) FROM generate_series(1, 100000)"
        : "INSERT INTO big SELECT REPEAT(MD5(seq), 1000) FROM seq_1_to_100";
    for (let round = 0; round < 5; round += 1) {
      await copy.sql(fill);
      if (kind === "postgres") await copy.sql("CHECKPOINT");
    }
    const [directory, isLog] = kind === "postgres" ? ["pg_wal", /^[0-9A-F]{24}$/] : ["", /^binlog\.\d{6}$/];
    const { text } = await copy.database.exec(["/usr/bin/ls", `/data/instance/data/${directory}`]);
    // Files of a megabyte each, or little more.
    const files = text.split("\n").filter((name) => isLog.test(name));
    expect(files.length).toBeGreaterThan(0);
    expect(files.length).toBeLessThan(kind === "postgres" ? 60 : 8);
    await copy.keep();
    const broken = await copy.once("a copy that is broken", ({ state }) => state === "broken");
    expect(broken.problem).toContain("log");
    const { bases } = await copy.once("another base", ({ state, bases }) => state === "following" && bases.length > 1);
    expect(bases.map(({ until }) => until)).toEqual([before, ""]);
    await copy.sql("INSERT INTO w (id) VALUES (2)");
    await covers(copy);
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1, 2]);
    // What was before the gap is still there to be had.
    await copy.restore(before ?? null);
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1]);
  });

  test("has what is large or more than rows, and makes do with half of what came last", async () => {
    const copy = await aCopy(kind);
    await copy.keep();
    await follows(copy);
    const statements =
      kind === "postgres"
        ? [
            "CREATE TABLE big AS SELECT i, repeat(md5(random()::text), 100) t FROM generate_series(1, 10000) i",
            "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'",
          ]
        : [
            "CREATE TABLE big AS SELECT seq AS i, REPEAT(MD5(seq), 250000) AS t FROM seq_1_to_6",
            "CREATE FUNCTION f(x int) RETURNS int DETERMINISTIC RETURN x + 1",
          ];
    for (const statement of statements) await copy.sql(statement);
    const count = "SELECT count(*), sum(length(t)), max(f(41)) FROM big";
    const before = await copy.sql(count);
    await covers(copy);
    await copy.lose();
    await copy.database.engine.killContainer(copy.keeper, "SIGKILL");
    const newest = (await logFiles(copy)).at(-1) ?? "";
    // The beginning of an event, as far as MariaDB goes: a segment of Postgres has its full length from the start.
    if (kind === "mariadb") {
      await appendFile(newest, Buffer.from("000000001e010000005000000000000000000000", "hex"));
    }
    await copy.restore();
    await copy.database.serves();
    expect(await copy.sql(count)).toBe(before);
  });

  test("is no copy any more without all of its log", async () => {
    const copy = await aCopy(kind);
    await copy.keep();
    await follows(copy);
    for (const id of [1, 2]) {
      await copy.sql(`INSERT INTO w (id) VALUES (${id})`);
      await copy.sql(kind === "postgres" ? "SELECT pg_switch_wal()" : "FLUSH BINARY LOGS");
    }
    await copy.sql("INSERT INTO w (id) VALUES (3)");
    await covers(copy);
    const { coveredAt = null } = (await copy.status()) ?? {};
    await copy.database.engine.killContainer(copy.keeper, "SIGKILL");
    await copy.lose();
    const files = await logFiles(copy);
    for (const missing of [files.at(-1), files.at(-2)]) {
      await rm(missing ?? "");
      for (const until of [null, coveredAt]) {
        await copy.restore(until);
        expect(entryFailure((await copy.database.ended()).exitCode)).toBe("DATABASE_RESTORE_FAILED");
      }
    }
  });

  test("that takes more than it may says so, and goes on when it may take more", async () => {
    const copy = await aCopy(kind);
    await copy.sql(
      kind === "postgres"
        ? "CREATE TABLE big AS SELECT md5(i::text) FROM generate_series(1, 100000) i"
        : "CREATE TABLE big AS SELECT MD5(seq) FROM seq_1_to_100000",
    );
    await copy.keep();
    await follows(copy);
    await copy.keep({ sizeMb: 1 });
    await copy.once("a copy that is too large", ({ problem }) => problem.includes("more than it may"));
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await copy.keep();
    await covers(copy);
  });

  test("whose log takes most of its room makes a new base, and has room again", async () => {
    const copy = await aCopy(kind);
    await copy.keep({ sizeMb: 64 });
    await follows(copy);
    await copy.sql("CREATE TABLE big (t text)");
    for (let round = 0; round < 12; round += 1) {
      await copy.sql(
        kind === "postgres"
          ? "INSERT INTO big SELECT md5(i::text) FROM generate_series(1, 50000) i"
          : "INSERT INTO big SELECT REPEAT(MD5(seq), 1000) FROM seq_1_to_140",
      );
      await copy.sql(kind === "postgres" ? "TRUNCATE big" : "DELETE FROM big LIMIT 1");
    }
    const { bases } = await copy.once(
      "another base alone",
      ({ state, bases }) => state === "following" && bases[0]?.number === 2,
    );
    expect(bases).toHaveLength(1);
  });

  test("gives up a base that there is no room for, goes on, and makes one once there is", async () => {
    const copy = await aCopy(kind);
    await copy.sql(
      kind === "postgres"
        ? "CREATE TABLE big AS SELECT md5(i::text) t FROM generate_series(1, 600000) i"
        : "CREATE TABLE big AS SELECT MD5(seq) AS t FROM seq_1_to_600000",
    );
    // In the middle of that table, wherever the engine begins.
    const mostOfItBytes = (kind === "postgres" ? 50 : 15) * 2 ** 20;
    const isTooLarge = ({ problem }: CopyStatus) => problem.includes("more than it may");
    const log = async () => readdir(join(await pathOf(copy), "logs"));

    copy.stallAfter(mostOfItBytes);
    await copy.keep({ sizeMb: 3 });
    await copy.once("a first base without room", (now) => now.state === "basing" && isTooLarge(now));
    await waitFor("another log than that of no base", async () => !(await log()).includes("000001"));

    copy.stallAfter(Number.POSITIVE_INFINITY);
    await copy.keep();
    const { bases } = await follows(copy);
    const sizes = await Promise.all(
      (await readdir(await pathOf(copy), { recursive: true })).map(async (name) =>
        stat(join(await pathOf(copy), name)),
      ),
    );
    const usedMb = Math.ceil(sizes.reduce((sum, { blocks }) => sum + blocks * 512, 0) / 2 ** 20);

    copy.stallAfter(mostOfItBytes);
    await copy.keep({ sizeMb: usedMb + 4, baseEverySeconds: 1 });
    await copy.once("a second base without room", (now) => now.state === "following" && isTooLarge(now));
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await covers(copy);
    expect((await copy.status())?.bases).toEqual(bases);

    copy.stallAfter(Number.POSITIVE_INFINITY);
    await copy.keep({ baseEverySeconds: 1 });
    await copy.once("a second base", (now) => now.bases.length > 1 && now.problem === "");
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1]);
  });

  test("is restored from the beginning when a restore is killed", async () => {
    const copy = await aCopy(kind);
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await copy.keep();
    await follows(copy);
    await copy.lose();
    await copy.restore();
    for (const delayMs of [0, 50, 200, 400, 800, 1_500]) {
      await new Promise<void>((resolve) => systemClock.after(delayMs, resolve));
      await copy.database.engine.killContainer(copy.database.name, "SIGKILL");
      await copy.database.ended();
      await copy.database.engine.startContainer(copy.database.name);
    }
    await copy.database.serves();
    expect([...(await idsOf(copy))]).toEqual([1]);
  });

  test("is proven by what is in it, and leaves nothing", async () => {
    const copy = await aCopy(kind);
    const count = 300_000;
    await copy.sql(
      kind === "postgres"
        ? `INSERT INTO w SELECT i FROM generate_series(1, ${count}) i`
        : `INSERT INTO w (id) SELECT seq FROM seq_1_to_${count}`,
    );
    const { engine, id } = copy.database;
    // Its own patience is the tenant's to say, and not what a proof takes.
    if (kind === "postgres")
      await copy.sql(`ALTER DATABASE ${databaseNames(id).database} SET statement_timeout = '5ms'`);
    await copy.keep();
    await follows(copy);
    const proofs = createProofs({ clock: systemClock, engine });
    const request = proofRequest(copy, kind);
    const found = await proofs.make(request, AbortSignal.timeout(280_000));
    expect(found.tables).toEqual([expect.objectContaining({ name: "w", rows: BigInt(count) })]);
    expect(Number(found.bytes)).toBeGreaterThan(0);
    expect(await engine.findContainer(`svc-v-${copy.copyId}`)).toBeNull();
    expect((await engine.listDatabaseVolumes()).map(({ of }) => of).toSorted()).toEqual(["copy", "database"]);
    await expect(proofs.make({ ...request, timeoutSeconds: 0 }, new AbortController().signal)).rejects.toMatchObject({
      code: "PROOF_TIMEOUT",
    });
    const other = { ...request, copyId: "00000000-0000-4000-8000-000000000000" };
    await expect(proofs.make(other, new AbortController().signal)).rejects.toMatchObject({
      code: "DATABASE_COPY_MISSING",
    });
  });
});

/** Names that mean something to a shell, a client, a statement or a comment on its way. */
const oddNames = [
  ...[
    "a\\b",
    "a\\nb",
    "a\\\\",
    "tab\there",
    "line\nhere",
    "x\r\ny",
    "'",
    '"',
    "a`b",
    "%s%",
    "$(id)",
    "-- c",
    "it's; DO 1;",
  ],
  ...["größe 表", "l\n*/ DROP TABLE `w`; -- .", "m\n/*!*/;\nDROP TABLE w/*!*/;\n#"],
];

describe.each(databaseEngines)("names of tables on %s that nobody expects", (kind) => {
  const quote = (name: string) =>
    kind === "postgres" ? `"${name.replaceAll('"', '""')}"` : `\`${name.replaceAll("`", "``")}\``;

  test("are in a copy, in what proves it, and in what is restored of it", async () => {
    const copy = await aCopy(kind);
    const rows = oddNames.map((name, at) => [name, at + 2] as const);
    for (const [name, count] of rows) {
      const values = Array.from({ length: count - 1 }, (_, i) => `(${i})`).join();
      await copy.sql(`CREATE TABLE ${quote(name)} (i int); INSERT INTO ${quote(name)} VALUES ${values}`);
    }
    if (kind === "mariadb") {
      // Views that nobody can read any more are told to its dump by their names.
      const views = oddNames.map((name) => `CREATE VIEW ${quote(`v${name}`)} AS SELECT i FROM gone`);
      await copy.sql(["CREATE TABLE gone (i int)", ...views, "DROP TABLE gone"].join("; "));
    }
    await copy.keep();
    await follows(copy);
    await copy.sql(oddNames.map((name) => `INSERT INTO ${quote(name)} VALUES (-1)`).join("; "));
    const proofs = createProofs({ clock: systemClock, engine: copy.database.engine });
    await covers(copy);
    const found = await proofs.make(proofRequest(copy, kind), AbortSignal.timeout(280_000));
    expect(new Map(found.tables.map((table) => [table.name, Number(table.rows)]))).toEqual(
      new Map([["w", 0], ...rows]),
    );
    const until = await aMomentLater();
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    await covers(copy);
    await copy.lose();
    for (const moment of [null, until]) {
      await copy.restore(moment);
      await copy.database.serves();
      const tables = ["w", ...oddNames].map((name) => `SELECT count(*) FROM ${quote(name)}`);
      const counts = (await copy.sql(tables.join(" UNION ALL "))).split("\n").map(Number);
      expect(counts).toEqual([moment === null ? 1 : 0, ...rows.map(([, count]) => count)]);
    }
  });
});

describe("what a dump of MariaDB is not by itself", () => {
  const history = "SELECT *, row_start, row_end FROM versioned FOR SYSTEM_TIME ALL ORDER BY row_start, a";
  const counts = "SELECT count(*), count(DISTINCT id) FROM w";

  test("a copy has, also to a moment: history, and tables without transactions that are written to meanwhile", async () => {
    const copy = await aCopy("mariadb");
    // It is read first, and for a while.
    await copy.sql("CREATE TABLE a (i int PRIMARY KEY, t longtext)");
    await copy.sql("INSERT INTO a SELECT seq, REPEAT(MD5(seq), 30000) FROM seq_1_to_64");
    await copy.sql("ALTER TABLE w ENGINE=Aria");
    await copy.sql("CREATE TABLE versioned (a int, b int) WITH SYSTEM VERSIONING");
    await copy.sql("INSERT INTO versioned VALUES (1, 1), (2, 2)");
    await copy.sql("UPDATE versioned SET b = b + 1");
    const writer = copy.write();
    await copy.keep();
    await follows(copy);
    await copy.sql("DELETE FROM versioned WHERE a = 2");
    await writer.stop();
    const before = [await copy.sql(history), await copy.sql(counts)];
    await covers(copy);
    const { coveredAt = null } = (await copy.status()) ?? {};
    await copy.lose();
    for (const until of [null, coveredAt]) {
      await copy.restore(until);
      await copy.database.serves();
      expect([await copy.sql(history), await copy.sql(counts)]).toEqual(before);
    }
  });

  test("goes on: a log of which nothing came before the server dropped it", async () => {
    const copy = await aCopy("mariadb");
    await copy.keep();
    await follows(copy);
    await copy.database.engine.stopContainer(copy.keeper, 5);
    for (const path of await logFiles(copy)) await rm(path);
    for (const _ of [1, 2]) await copy.sql("FLUSH BINARY LOGS");
    await copy.sql("PURGE BINARY LOGS TO 'binlog.000003'");
    await copy.keep();
    await copy.once("another base", ({ state, bases }) => state === "following" && bases.length > 1);
  });

  test("does not end it: views of what is gone", async () => {
    const copy = await aCopy("mariadb");
    await copy.sql("CREATE TABLE gone (a int)");
    for (const view of ["one", "`other ``'one`", "third"]) await copy.sql(`CREATE VIEW ${view} AS SELECT * FROM gone`);
    await copy.sql("CREATE VIEW sound AS SELECT 1 AS a");
    await copy.sql("DROP TABLE gone");
    await copy.keep();
    await follows(copy);
    await copy.sql("DROP VIEW `other ``'one`");
    await copy.sql("CREATE OR REPLACE VIEW third AS SELECT 3 AS a");
    await covers(copy);
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    expect(
      await copy.sql("SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1"),
    ).toBe("one\nsound\nthird");
    expect(await copy.sql("SELECT * FROM third")).toBe("3");
    await expect(copy.sql("SELECT * FROM one")).rejects.toThrow("1356");
  });

  test.each([
    { what: "a definition that is being changed", begin: "ALTER TABLE t ADD INDEX (b)", end: "DO 0" },
    {
      what: "a transaction that is prepared",
      begin: "XA START 'x'; INSERT INTO t VALUES (1, 1); XA END 'x'; XA PREPARE 'x'",
      end: "XA COMMIT 'x'",
    },
  ])("is not made over $what", async ({ begin, end }) => {
    const copy = await aCopy("mariadb");
    await copy.sql("CREATE TABLE t (a int PRIMARY KEY, b int)");
    const reader = copy.sql("BEGIN; SELECT * FROM t; DO SLEEP(15); COMMIT");
    await waitFor(
      "somebody who reads",
      async () =>
        (await copy.sql("SELECT count(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DO SLEEP%'")) === "1",
    );
    const changes = copy.sql(begin);
    await copy.keep();
    await copy.once("a base that is none", ({ problem }) => problem.includes("definitions were changed"));
    await Promise.all([reader, changes]);
    await copy.sql(end);
    await follows(copy);
    await copy.sql("INSERT INTO t VALUES (2, 2)");
    const before = await copy.sql("SELECT * FROM t");
    await covers(copy);
    await copy.lose();
    await copy.restore();
    await copy.database.serves();
    expect(await copy.sql("SELECT * FROM t")).toBe(before);
  });
});
