import { expect, test } from "vitest";
import { judgeJobs } from "./rules.ts";

test.each([
  { when: "there are none", health: { scheduled: 0, paused: 0, lagSeconds: 0 }, is: "ok", says: /no scheduled jobs/ },
  {
    when: "all is well",
    health: { scheduled: 3, paused: 1, lagSeconds: 0.4 },
    is: "ok",
    says: /^3 jobs scheduled, 1 paused/,
  },
  { when: "a round took long", health: { scheduled: 3, paused: 0, lagSeconds: 60 }, is: "ok", says: /none is late/ },
  { when: "nobody looks", health: { scheduled: 3, paused: 0, lagSeconds: 61 }, is: "fail", says: /due for 61 s/ },
])("when $when", ({ health, is, says }) => {
  const [found, ...more] = judgeJobs(health);
  expect([found?.status, found?.text, more]).toEqual([is, expect.stringMatching(says), []]);
});
