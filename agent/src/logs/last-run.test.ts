import { expect, test } from "vitest";
import { lastRunOf } from "./last-run.ts";

const lines = [
  "2030-01-01T12:00:00.123456789Z up",
  "2030-01-01T12:00:01.100000000Z Error: the first",
  "2030-01-01T12:00:02.000000000Z up again",
  "2030-01-01T12:00:03.000000000Z bye",
];
const log = `${lines.join("\n")}\n`;
const endedAt = "2030-01-01T12:00:03.5Z";

test.each([
  { when: "it ended before", endedBefore: "2030-01-01T12:00:01.2Z", from: 2 },
  { when: "it ended at the time of a line", endedBefore: "2030-01-01T12:00:01.1Z", from: 2 },
  { when: "it wrote nothing since", endedBefore: "2030-01-01T12:00:03.4Z", from: 4 },
  { when: "it never ended before", endedBefore: "", from: 0 },
  { when: "nobody knows when it ended before", endedBefore: "after 2030-01-01T12:00:00Z", from: 0 },
  { when: "the clock was set back since", endedBefore: "2030-01-01T13:00:00Z", from: 0 },
])("when $when", ({ endedBefore, from }) => {
  expect(lastRunOf(log, { endedBefore, startedAt: "", endedAt })).toBe([...lines, ""].slice(from).join("\n"));
});

test.each([
  { when: "lines of the run before are stamped late", startedAt: "2030-01-01T12:00:01.9Z", from: 2 },
  { when: "its first line is stamped before its start", startedAt: "2030-01-01T12:00:02.015Z", from: 2 },
  { when: "its start is said to be before the end of the run before", startedAt: "2030-01-01T12:00:00Z", from: 1 },
  { when: "its start is said to be after its end", startedAt: "2030-01-01T12:00:04Z", from: 1 },
])("when $when", ({ startedAt, from }) => {
  const run = { endedBefore: "2030-01-01T12:00:01.0Z", startedAt, endedAt };
  expect(lastRunOf(log, run)).toBe([...lines, ""].slice(from).join("\n"));
});
