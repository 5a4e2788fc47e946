import { expect, test } from "vitest";
import { explore } from "./explore.ts";
import { type JobRunBounds, type JobRunMutant, jobRuns } from "./job-runs.ts";

const twoLeaders: JobRunBounds = { leaders: 2, runs: 1, attempts: 2 };
const twoRuns: JobRunBounds = { leaders: 1, runs: 2, attempts: 1 };

test.each([
  { of: "one run that two leaders drive", bounds: twoLeaders },
  { of: "two runs of a job, one of which waits", bounds: twoRuns },
])(
  "$of, in every order of events: an attempt begins once, two are never at work, and what is unknown is not repeated",
  ({ bounds }) => {
    const { violation, states } = explore(jobRuns(null, bounds));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  },
);

const bugs: [JobRunMutant, JobRunBounds][] = [
  ["overlap ignores unknown", twoRuns],
  ["retry after unknown", twoLeaders],
  ["grant before Postgres", twoLeaders],
  ["cancel ends what runs", twoLeaders],
];
test.each(bugs)("would be caught with the bug: %s", (bug, bounds) => {
  expect(explore(jobRuns(bug, bounds)).violation).not.toBeNull();
});
