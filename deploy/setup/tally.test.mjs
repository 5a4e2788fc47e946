import { expect, test } from "vitest";
import { tally } from "./tally.mjs";

const passedFile = { status: "passed", assertionResults: [{ status: "passed" }] };
const failedFile = { status: "failed", assertionResults: [{ status: "passed" }, { status: "failed" }] };
const brokenFile = { status: "failed", assertionResults: [] };

test.each([
  {
    when: "all tests pass",
    report: { numPassedTests: 1, numFailedTests: 0, testResults: [passedFile] },
    code: 0,
    is: [1, 0],
  },
  {
    when: "a test fails",
    report: { numPassedTests: 1, numFailedTests: 1, testResults: [failedFile] },
    code: 1,
    is: [1, 1],
  },
  {
    when: "a file does not load",
    report: { numPassedTests: 0, numFailedTests: 0, testResults: [brokenFile] },
    code: 1,
    is: [0, 1],
  },
  {
    when: "the exit is unclean for no test's sake",
    report: { numPassedTests: 1, numFailedTests: 0, testResults: [passedFile] },
    code: 1,
    is: [1, 1],
  },
  { when: "there is no report", report: null, code: 1, is: [0, 1] },
])("when $when", ({ report, code, is: [passed, failed] }) => {
  expect(tally(report, code)).toEqual({ passed, failed });
});
