import { jobRunStatuses, jobRunsReply, limits } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { formatAge } from "../../format.ts";
import { findScope, jobFlags, scopeQuery, withQuery } from "../../jobs/find.ts";
import { momentOf, reasonOf, runState, tookOf } from "../../jobs/lines.ts";
import { listing } from "../../listing.ts";

export const jobsRuns = command({
  name: "jobs runs",
  summary: "List runs of jobs, newest first",
  details: "A run keeps its id over all attempts. Without a name or flags: those of all jobs on all channels.",
  flags: {
    ...jobFlags,
    channel: { ...jobFlags.channel, summary: jobFlags.channel.summary.replace("; default: production", "") },
    deployment: flag.text("--deployment <id>", "With the code of this deployment"),
    status: flag.choice("--status <status>", "Only those", jobRunStatuses),
    limit: flag.integer("--limit <n>", `How many, 1 to ${limits.jobRunsListMax}; default: 20`),
    cursor: flag.text("--cursor <cursor>", "Go on where an earlier list ended: its nextCursor"),
  },
  arguments: { name: argument.optional("name", "Of this job") },
  examples: ["svc jobs runs", "svc jobs runs nightly --status failed --limit 50", "svc jobs runs --channel dev --json"],
  async run(context, { status, limit, cursor, name, ...given }) {
    if (limit !== undefined && (limit < 1 || limit > limits.jobRunsListMax))
      throw new CliError("CLI_INVALID_USAGE", `--limit is 1 to ${limits.jobRunsListMax}, not ${limit}`, {
        hint: "Read on with --cursor where that is too few",
      });
    const scope = await findScope(context, given);
    const query = scopeQuery(scope);
    for (const [key, value] of Object.entries({ status, limit, cursor, name }))
      if (value !== undefined) query.set(key, String(value));
    const path = withQuery(`/projects/${scope.projectId}/job-runs`, query);
    const { runs, nextCursor } = await scope.api.get(path, jobRunsReply);
    return { project: scope.project, runs, nextCursor };
  },
  render({ runs, nextCursor }, screen) {
    const { paint, now } = screen;
    if (runs.length === 0) return "No runs. Start one with `svc jobs run <job>`";
    const rows = runs.map((each) => [
      each.id,
      each.jobName,
      each.prNumber === null ? each.channel : `${each.channel} #${each.prNumber}`,
      each.trigger,
      runState(each, screen),
      String(each.attemptCount),
      formatAge(momentOf(each), now),
      tookOf(each, now),
    ]);
    const below = runs.map((each) => {
      const reason = each.status === "succeeded" ? null : reasonOf(each);
      return reason === null ? [] : [`  ${paint("dim", reason)}`];
    });
    const titles = ["RUN", "JOB", "CHANNEL", "BY", "STATUS", "ATTEMPTS", "WHEN", "TOOK"];
    const more = nextCursor === null ? [] : ["", paint("dim", `Older ones: --cursor ${nextCursor}`)];
    return [listing(titles, rows, screen, { below, alignRight: [5] }), ...more].join("\n");
  },
});
