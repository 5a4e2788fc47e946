import { appendFile } from "node:fs/promises";
import { databaseEngines } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { aCopy, covers, follows, idsOf, logFiles } from "../testing/copies.ts";
import { waitFor } from "../testing/wait.ts";

describe.each(databaseEngines)("a copy of a database on %s", (kind) => {
  test("goes on without a gap when its keeper is killed at any moment", async () => {
    const copy = await aCopy(kind);
    const writer = copy.write();
    await copy.keep();
    // Before, in the middle of and after the first base, and while it follows.
    for (const delayMs of [0, 100, 300, 600, 1_000, 1_500, 2_500]) {
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
});
