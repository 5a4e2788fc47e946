import { databaseEngines, databaseNames } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { entryFailure } from "../databases/exit.ts";
import { aCopy, aMomentLater, covers, follows, idsOf, proofRequest } from "../testing/copies.ts";
import { waitFor } from "../testing/wait.ts";
import { createProofs } from "./proofs.ts";

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
    // What comes later is in a file of its own.
    if (kind === "mariadb") await copy.sql("FLUSH BINARY LOGS");
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
