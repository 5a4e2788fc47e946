// @pure
import { counted, type Finding, fail, ok } from "../finding.ts";

/** Scheduled jobs of everybody. */
export interface JobHealth {
  scheduled: number;
  paused: number;
  /** For how long the one that is due longest has been so. */
  lagSeconds: number;
}

/** The clock looks every second. */
const lagMostSeconds = 60;

export function judgeJobs({ scheduled, paused, lagSeconds }: JobHealth): Finding[] {
  if (lagSeconds > lagMostSeconds)
    return [
      fail(
        `Scheduled jobs are due for ${Math.round(lagSeconds)} s and nobody begins them.`,
        'See the checks of the leader and of Postgres, and the leader\'s log for the loop "job clock".',
      ),
    ];
  if (scheduled + paused === 0) return [ok("There are no scheduled jobs.")];
  return [ok(`${counted(scheduled, "job")} scheduled, ${paused} paused; none is late.`)];
}
