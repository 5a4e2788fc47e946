import { argument, command } from "../../command.ts";
import { findScope, jobFlags, switchJob } from "../../jobs/find.ts";

export const jobsDisable = command({
  name: "jobs disable",
  summary: "Have a job not scheduled any more, over all deployments to come",
  details: "Runs that are under way go on, and `svc jobs run` still runs it.",
  flags: jobFlags,
  arguments: { job: argument.required("job", "Its name or id; see `svc jobs ls`") },
  examples: ["svc jobs disable nightly", "svc jobs disable nightly --channel dev"],
  async run(context, { job: named, ...given }) {
    const scope = await findScope(context, given);
    return { project: scope.project, job: await switchJob(scope, named, false) };
  },
  render: ({ job }, { paint }) =>
    `${paint("green", "✓")} ${job.name} is not scheduled any more. Back with \`svc jobs enable ${job.name}\``,
});
