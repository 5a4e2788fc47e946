import { expect, test } from "vitest";
import { filesToRunAgain, flakyLines, slowestFiles, tally, withSecondRuns } from "./tally.mjs";

const good = { status: "passed", fullName: "it works", failureMessages: [] };
const bad = { status: "failed", fullName: "it holds", failureMessages: ["expected 1\nto be 2"] };
const skipped = { status: "skipped", fullName: "it waits", failureMessages: [] };
const passedFile = { name: "/r/passed.test.ts", status: "passed", assertionResults: [good, skipped] };
const failedFile = { name: "/r/failed.test.ts", status: "failed", assertionResults: [good, bad] };
const brokenFile = { name: "/r/broken.test.ts", status: "failed", assertionResults: [], message: "it does not load" };
const reportOf = (...testResults) => ({ testResults });

test.each([
  { when: "all tests pass", report: reportOf(passedFile), code: 0, is: [1, 0] },
  { when: "a test fails", report: reportOf(failedFile), code: 1, is: [1, 1] },
  { when: "a file does not load", report: reportOf(brokenFile), code: 1, is: [0, 1] },
  { when: "the exit is unclean for no test's sake", report: reportOf(passedFile), code: 1, is: [1, 1] },
  { when: "there is no report", report: null, code: 1, is: [0, 1] },
])("counts when $when", ({ report, code, is: [passed, failed] }) => {
  expect(tally(report, code)).toEqual({ passed, failed });
});

const more = ["a", "b", "c", "d"].map((name) => ({ ...failedFile, name }));
test.each([
  { when: "all passed", report: reportOf(passedFile), code: 0, are: [] },
  { when: "few failed", report: reportOf(passedFile, failedFile, brokenFile), code: 1, are: ["failed", "broken"] },
  { when: "many failed", report: reportOf(...more), code: 1, are: [] },
  { when: "no file explains the exit", report: reportOf(passedFile), code: 1, are: [] },
  { when: "there is no report", report: null, code: 1, are: [] },
])("files that run again when $when", ({ report, code, are }) => {
  expect(filesToRunAgain(report, code)).toEqual(are.map((name) => `/r/${name}.test.ts`));
});

test("what passes the second time is shown with what it said the first time", () => {
  const first = reportOf(passedFile, failedFile, brokenFile);
  expect(flakyLines(first, [failedFile.name])).toEqual([
    "FLAKY /r/failed.test.ts",
    "  it holds",
    "  expected 1\n  to be 2",
  ]);
  expect(flakyLines(first, [brokenFile.name])).toEqual(["FLAKY /r/broken.test.ts", "  it does not load"]);
});

test("of a file that ran twice the second run counts", () => {
  const first = reportOf(passedFile, failedFile);
  const repaired = reportOf({ ...failedFile, status: "passed", assertionResults: [good, good] });
  expect(tally(withSecondRuns(first, [repaired]), 0)).toEqual({ passed: 3, failed: 0 });
  // Of one that ended without a report the first run stands.
  expect(tally(withSecondRuns(first, [null]), 1)).toEqual({ passed: 2, failed: 1 });
});

test("the slowest files come first", () => {
  const timed = (name, seconds) => ({ ...passedFile, name, startTime: 1_000, endTime: 1_000 + seconds * 1_000 });
  expect(slowestFiles(reportOf(timed("/r/a.ts", 1), timed("/r/b.ts", 61.25)), "/r")).toEqual([
    "   61.3 s  b.ts",
    "    1.0 s  a.ts",
  ]);
});
