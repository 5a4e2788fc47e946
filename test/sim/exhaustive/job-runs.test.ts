import { expect, test } from "vitest";
import { explore } from "./explore.ts";
import { type JobRunMutant, jobRuns } from "./job-runs.ts";

test("runs of one job, in every order of events: each attempt begins once, two are never at work, and nothing unknown is repeated", () => {
  const { violation, states } = explore(jobRuns(null));
  expect(violation).toBeNull();
  expect(states).toBeGreaterThan(10_000);
});

const bugs: JobRunMutant[] = [
  "overlap ignores unknown",
  "retry after unknown",
  "grant before Postgres",
  "cancel ends what runs",
];
test.each(bugs)("would be caught with the bug: %s", (bug) => {
  expect(explore(jobRuns(bug)).violation).not.toBeNull();
});
