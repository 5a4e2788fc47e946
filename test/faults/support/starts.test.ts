import { expect, test } from "vitest";
import { judgeStarts, type StartsVerdict } from "./starts.ts";

const nothing: StartsVerdict = { twice: [], unseen: [], unheard: [], open: [], lost: [], doubled: [] };
const minute = (of: number) => new Date(Date.UTC(2026, 0, 1, 0, of)).toISOString();
const run = (id: string, more: object = {}) => ({
  ...{ id, jobName: "tick", trigger: "schedule", status: "succeeded", reason: null, attemptCount: 1, missed: 0 },
  ...{ scheduledAt: minute(0), ...more },
});
const start = (id: string, attempt = 1) => ({ run: id, attempt });
const skipped = { status: "skipped", attemptCount: 0 };

interface Row {
  starts: { run: string; attempt: number }[];
  runs: ReturnType<typeof run>[];
  says: Partial<StartsVerdict>;
  lastMs?: number;
}

test.each<Row & { when: string }>([
  { when: "all went well", starts: [start("a")], runs: [run("a")], says: {} },
  { when: "one was started twice", starts: [start("a"), start("a")], runs: [run("a")], says: { twice: ["a 1: 2"] } },
  {
    when: "the second attempt succeeded and the first was never heard of",
    ...{ starts: [start("a", 2)], runs: [run("a", { attemptCount: 2 })], says: {} },
  },
  {
    when: "only the first of two attempts was seen",
    ...{ starts: [start("a")], runs: [run("a", { attemptCount: 2 })], says: { unseen: ["a 2"] } },
  },
  {
    when: "an attempt was started that nobody knows",
    ...{ starts: [start("a"), start("a", 2), start("b")], runs: [run("a")], says: { unheard: ["a 2", "b 1"] } },
  },
  {
    when: "a run is not over",
    ...{ starts: [start("a")], runs: [run("a", { status: "running" })], says: { open: ["a running"] } },
  },
  { when: "an instant is missing", starts: [], runs: [], says: { lost: [`tick ${minute(0)}`] } },
  {
    when: "an instant was skipped without a reason",
    ...{ starts: [], runs: [run("a", skipped)], says: { lost: [`tick ${minute(0)}`] } },
  },
  { when: "an instant was skipped", starts: [], runs: [run("a", { ...skipped, reason: "overlap" })], says: {} },
  {
    when: "an instant has two runs",
    starts: [start("a"), start("b")],
    ...{ runs: [run("a"), run("b")], says: { doubled: [`tick ${minute(0)}`] } },
  },
  {
    when: "several instants were missed",
    lastMs: Date.parse(minute(2)),
    starts: [],
    ...{ runs: [run("a", { ...skipped, reason: "missed", missed: 3, scheduledAt: minute(2) })], says: {} },
  },
])("when $when", ({ starts, runs, says, lastMs }) => {
  const firstMs = Date.parse(minute(0));
  const due = { names: ["tick"], firstMs, lastMs: lastMs ?? firstMs };
  expect(judgeStarts(starts, runs as never, due)).toEqual({ ...nothing, ...says });
});
