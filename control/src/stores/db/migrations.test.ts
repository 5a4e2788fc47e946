import { describe, expect, test } from "vitest";
import {
  BadMigrations,
  inOrder,
  MigrationMismatch,
  ownMigrations,
  pendingMigrations,
  readMigrations,
  UnknownSchema,
} from "./migrations.ts";

describe("files of steps", () => {
  test("run by their numbers", () => {
    const files = ["0003-contract-old-names.sql", "0001-baseline.sql", "0002-expand-names.sql"];
    expect(inOrder(files)).toEqual(["0001-baseline.sql", "0002-expand-names.sql", "0003-contract-old-names.sql"]);
  });

  test.each([
    { when: "does not say whether it expands or contracts", file: "0002-names.sql" },
    { when: "says nothing but that", file: "0002-expand.sql" },
    { when: "is a second baseline", file: "0002-baseline.sql" },
    { when: "has the number of another one", file: "0001-expand-names.sql" },
    { when: "leaves a number out", file: "0003-expand-names.sql" },
    { when: "is no SQL", file: "0002-expand-names.ts" },
  ])("are refused when one $when", ({ file }) => {
    expect(() => inOrder(["0001-baseline.sql", file])).toThrow(BadMigrations);
  });

  test("of this version say what they are", async () => {
    const [first] = await readMigrations(ownMigrations);
    expect(first?.name).toBe("0001-baseline.sql");
  });
});

describe("what has still to run", () => {
  const known = [
    { name: "0001-baseline.sql", hash: "a" },
    { name: "0002-expand-names.sql", hash: "b" },
  ];

  test.each([
    { when: "nothing ran", ran: [], pending: known },
    { when: "an older version was here", ran: known.slice(0, 1), pending: known.slice(1) },
    { when: "all of it ran", ran: known, pending: [] },
  ])("when $when", ({ ran, pending }) => {
    expect(pendingMigrations(known, ran)).toEqual(pending);
  });

  test("is not asked of a database that a newer version has changed", () => {
    const ran = [...known, { name: "0003-contract-names.sql", hash: "c" }];
    const pending = () => pendingMigrations(known, ran);
    expect(pending).toThrow(UnknownSchema);
    expect(pending).toThrow(/not know: 0003-contract-names\.sql\. .*Start the version that made them.* or.* restore/);
  });

  test("is not asked of a database that a step ran on which is another one now", () => {
    expect(() => pendingMigrations(known, [{ name: "0001-baseline.sql", hash: "b" }])).toThrow(MigrationMismatch);
  });
});
