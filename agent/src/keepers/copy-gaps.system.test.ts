import { rm } from "node:fs/promises";
import { databaseEngines } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { entryFailure } from "../databases/exit.ts";
import { aCopy, aMomentLater, covers, follows, idsOf, logFiles } from "../testing/copies.ts";

describe.each(databaseEngines)("a copy of a database on %s", (kind) => {
  test("that was away for too long costs a new base, never the server's disk", async () => {
    const settings =
      kind === "postgres"
        ? ["-c", "max_slot_wal_keep_size=8MB", "-c", "max_wal_size=32MB", "-c", "min_wal_size=2MB"]
        : ["--max-binlog-size=1M", "--max-binlog-total-size=4M"];
    const copy = await aCopy(kind, settings);
    await copy.keep();
    await follows(copy);
    await copy.sql("INSERT INTO w (id) VALUES (1)");
    // What it is covered until then is no moment of the second in which something was written.
    await aMomentLater();
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
});
