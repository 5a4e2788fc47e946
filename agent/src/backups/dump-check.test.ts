import { expect, test } from "vitest";
import { createDumpCheck, dumpProblem } from "./dump-check.ts";

const pgEnd = "--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict x\n\n";
const mariadbEnd =
  "/*M!100616 SET NOTE_VERBOSITY=@OLD_NOTE_VERBOSITY */;\n\n-- Dump completed on 2030-01-01  0:00:00\n";

test.each([
  { when: "it ends as one does", engine: "postgres", text: `CREATE TABLE a ();\n${pgEnd}`, whole: true },
  { when: "it ends as one does", engine: "mariadb", text: `CREATE TABLE a (b int);\n${mariadbEnd}`, whole: true },
  { when: "it is cut", engine: "postgres", text: "CREATE TABLE a ();\nCOPY a (b) FROM stdin;\n1\n", whole: false },
  { when: "it is cut", engine: "mariadb", text: "INSERT INTO a VALUES (1),\n(2", whole: false },
  { when: "it is of the other engine", engine: "postgres", text: mariadbEnd, whole: false },
  { when: "it is empty", engine: "postgres", text: "", whole: false },
  { when: "it has a header alone", engine: "mariadb", text: "-- MariaDB dump 10.19\n", whole: false },
  {
    when: "the line is in the data, far from the end",
    engine: "postgres",
    text: `${pgEnd}${"1\n".repeat(2_000)}`,
    whole: false,
  },
] as const)("a dump of $engine is whole: $whole, when $when, however it was cut", ({ engine, text, whole }) => {
  for (const size of [1, 7, 4_096]) {
    const check = createDumpCheck(engine, 1_000_000);
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size) expect(check.push(bytes.subarray(at, at + size))).toBe(true);
    expect(check.isWhole()).toBe(whole);
    expect(check.bytes()).toBe(bytes.length);
  }
});

test("more than is allowed is noticed with the byte that is too many", () => {
  const check = createDumpCheck("postgres", 10);
  expect(check.push(Buffer.alloc(10))).toBe(true);
  expect(check.push(Buffer.alloc(1))).toBe(false);
});

test.each([
  { when: "it ended well, and all passed", exitCode: 0, isWhole: true, problem: null },
  { when: "it ended well after a part", exitCode: 0, isWhole: false, problem: "BACKUP_INCOMPLETE" },
  { when: "it failed after its last line", exitCode: 1, isWhole: true, problem: "BACKUP_FAILED" },
  { when: "it was killed in the middle", exitCode: 137, isWhole: false, problem: "BACKUP_FAILED" },
] as const)("what came of a dump, when $when: $problem", ({ exitCode, isWhole, problem }) => {
  expect(dumpProblem({ isWhole: () => isWhole }, exitCode)).toBe(problem);
});
