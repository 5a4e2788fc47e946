import { databaseEngines } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { aCopy, aMomentLater, covers, follows, proofRequest } from "../testing/copies.ts";
import { createProofs } from "./proofs.ts";

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
