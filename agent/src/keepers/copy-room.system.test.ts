import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { databaseEngines } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { aCopy, covers, follows, idsOf, pathOf } from "../testing/copies.ts";
import { waitFor } from "../testing/wait.ts";
import type { CopyStatus } from "./status.ts";

describe.each(databaseEngines)("a copy of a database on %s", (kind) => {
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
        ? // A vacuum would write all of it into the log once more, whenever it comes.
          "CREATE TABLE big WITH (autovacuum_enabled = off) AS SELECT md5(i::text) t FROM generate_series(1, 600000) i"
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
});
