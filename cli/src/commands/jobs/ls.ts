import { plural } from "@svc/proto";
import { command } from "../../command.ts";
import { findScope, jobFlags, listJobs } from "../../jobs/find.ts";
import { lastOf, nextOf, scheduleOf, troubleOf, whyNotScheduled } from "../../jobs/lines.ts";
import { listing } from "../../listing.ts";

export const jobsLs = command({
  name: "jobs ls",
  summary: "List scheduled jobs: when each runs next, and how it went last",
  details:
    "Jobs stand in the manifest (`jobs:`) and begin with the deployment that serves. Times of the next run are at the clock of the job's zone. --channel preview is the preview that belongs to no pull request.",
  flags: jobFlags,
  examples: ["svc jobs ls", "svc jobs ls --channel dev --json"],
  async run(context, given) {
    const scope = await findScope(context, given);
    const { jobs, limits } = await listJobs(scope);
    return { project: scope.project, channel: given.channel ?? "production", jobs, limits };
  },
  render({ jobs, limits, channel }, screen) {
    const { paint, now } = screen;
    if (jobs.length === 0)
      return limits.maxScheduledJobs === 0
        ? "The plan does not include scheduled jobs"
        : `No jobs on ${channel}. Write some into the manifest (\`jobs:\`), and deploy`;
    const rows = jobs.map((each) => [each.name, scheduleOf(each), nextOf(each, screen), lastOf(each, screen)]);
    const below = jobs.map((each) =>
      [...whyNotScheduled(each), ...troubleOf(each, now)].map((text) => `  ${paint("yellow", "!")} ${text}`),
    );
    const count = `${limits.scheduledJobs} of ${plural(limits.maxScheduledJobs, "scheduled job")} of the plan, over all channels`;
    return [listing(["JOB", "SCHEDULE", "NEXT", "LAST RUN"], rows, screen, { below }), "", paint("dim", count)].join(
      "\n",
    );
  },
});
