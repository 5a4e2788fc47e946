import { rm } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { aCopy, aMomentLater, covers, follows, logFiles } from "../testing/copies.ts";
import { waitFor } from "../testing/wait.ts";

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
    // What it is covered until then is no moment of the second in which something was written.
    await aMomentLater();
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
    // Until it is ended: it keeps others from the table's definition.
    const reader = copy.sql("BEGIN; SELECT * FROM t; SELECT SLEEP(600)").catch(() => {});
    const connection = await waitFor(
      "somebody who reads",
      async () =>
        (await copy.sql("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'")) || null,
    );
    const changes = copy.sql(begin);
    await copy.keep();
    await copy.once("a base that is none", ({ problem }) => problem.includes("definitions were changed"));
    await copy.sql(`KILL ${connection}`);
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
