import { argument, command } from "../../command.ts";
import { findScope, jobFlags, switchJob } from "../../jobs/find.ts";
import { nextOf, whyNotScheduled } from "../../jobs/lines.ts";

export const jobsEnable = command({
  name: "jobs enable",
  summary: "Have a job scheduled again, over all deployments to come",
  details: "What its manifest disables (`enabled: false`) and what the platform pauses stays as it is.",
  flags: jobFlags,
  arguments: { job: argument.required("job", "Its name or id; see `svc jobs ls`") },
  examples: ["svc jobs enable nightly", "svc jobs enable nightly --channel dev"],
  async run(context, { job: named, ...given }) {
    const scope = await findScope(context, given);
    return { project: scope.project, job: await switchJob(scope, named, true) };
  },
  render({ job }, screen) {
    const { paint } = screen;
    const why = whyNotScheduled(job).map((text) => `  ${paint("yellow", "!")} ${text}`);
    if (why.length > 0)
      return [`${paint("yellow", "!")} ${job.name} is enabled, and not scheduled yet`, ...why].join("\n");
    return `${paint("green", "✓")} ${job.name} is scheduled, next ${nextOf(job, screen)}`;
  },
});
