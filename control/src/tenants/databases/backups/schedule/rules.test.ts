import { expect, test } from "vitest";
import { keptOfOwn, nightStep, scheduleRefusal } from "./rules.ts";

const facts = { maxDatabases: 1, maxBackups: 5, complete: 0, own: 0, keep: 3, underWay: null };

test.each([
  { when: "there are none", does: "begin", complete: 0, own: 0 },
  { when: "there is room", does: "begin", complete: 4, own: 2 },
  {
    when: "as many as the plan keeps are there, and this one replaces one of its own",
    does: "begin",
    complete: 5,
    own: 3,
  },
  { when: "as many as the plan keeps are there, and it would replace none", does: "leaveOut", complete: 5, own: 2 },
  { when: "people took all of the plan's", does: "leaveOut", complete: 5, own: 0 },
  { when: "the plan keeps fewer than before, and one goes for one", does: "leaveOut", complete: 7, own: 3 },
  { when: "more are there than it keeps, and enough of them go", does: "begin", complete: 7, own: 5 },
  { when: "one is under way", does: "wait", complete: 0, own: 0, underWay: "dev" as const },
  { when: "the plan has no backups", does: "leaveOut", complete: 0, own: 0, maxBackups: 0 },
  { when: "the plan has no databases any more", does: "leaveOut", complete: 0, own: 0, maxDatabases: 0 },
])("a night when $when: $does", ({ when: _, does, ...change }) => {
  expect(nightStep({ ...facts, ...change }).do).toBe(does);
});

test("who has none that night is told why, and what helps", () => {
  expect(nightStep({ ...facts, complete: 5 })).toEqual({
    do: "leaveOut",
    problem: "The plan keeps 5 backups per project, and as many are there. Delete one, or keep fewer.",
  });
});

test.each([
  { when: "it fits", channels: ["production", "dev"] as const, keep: 2, code: null },
  { when: "it is more than the plan keeps", channels: ["production", "dev"] as const, keep: 3, code: "QUOTA_EXCEEDED" },
  { when: "the plan has no backups", channels: ["dev"] as const, keep: 1, maxBackups: 0, code: "QUOTA_EXCEEDED" },
  {
    when: "the plan has no databases",
    channels: ["dev"] as const,
    keep: 1,
    maxDatabases: 0,
    code: "PLAN_FEATURE_UNAVAILABLE",
  },
])("a schedule when $when: $code", ({ code, when: _, ...asked }) => {
  expect(scheduleRefusal({ maxDatabases: 1, maxBackups: 5, ...asked })?.code ?? null).toBe(code);
});

test.each([
  { when: "the schedule is as it was", asked: 2, keep: 2, own: 3, stay: 2 },
  { when: "more are to be kept by now", asked: 2, keep: 4, own: 3, stay: 3 },
  { when: "fewer are, which the next night sees to", asked: 3, keep: 1, own: 4, stay: 3 },
  { when: "it ended", asked: 1, keep: null, own: 4, stay: 4 },
  { when: "it ended, and the plan keeps fewer", asked: 1, keep: null, own: 4, complete: 7, stay: 2 },
  { when: "more are to be kept, and people have the plan's", asked: 1, keep: 4, own: 2, complete: 9, stay: 1 },
])("when $when, $stay stay", ({ when: _, stay, ...facts }) => {
  expect(keptOfOwn({ complete: facts.own, maxBackups: 5, ...facts })).toBe(stay);
});
