import { expect, test } from "vitest";
import { errorTailOf } from "./engines.ts";

test("of a failure on MariaDB its last error is shown, and not the statement", () => {
  const stderr =
    "--------------\ninsert into t values\n('ERROR 1'),\nERROR 2\n--------------\n\nERROR 1064 (42000) at line 9: near 'x\ny'\n";
  expect(errorTailOf("mariadb", stderr)).toBe("ERROR 1064 (42000) at line 9: near 'x\ny'");
  expect(errorTailOf("mariadb", "mariadb: unknown option '--sandbox'\n")).toBe("mariadb: unknown option '--sandbox'");
});

test("a failure on Postgres has several lines, of which the last and the first characters of each are shown", () => {
  const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`);
  expect(errorTailOf("postgres", `${lines.join("\n")}\n`)).toBe(lines.slice(8).join("\n"));
  expect(errorTailOf("postgres", "x".repeat(2_000))).toBe(`${"x".repeat(500)}…`);
});
