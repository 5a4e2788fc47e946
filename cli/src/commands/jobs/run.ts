import { jobRunReply } from "@svc/proto";
import { argument, command } from "../../command.ts";
import { findJobId, findScope, jobFlags } from "../../jobs/find.ts";
import { reasonOf, runState } from "../../jobs/lines.ts";
import { postOnce } from "../../post-once.ts";

export const jobsRun = command({
  name: "jobs run",
  summary: "Run a job now, also one that is disabled",
  details: "A job of which a run is under way begins after it; while one waits already, that one is answered.",
  flags: jobFlags,
  arguments: { job: argument.required("job", "Its name or id; see `svc jobs ls`") },
  examples: ["svc jobs run nightly", "svc jobs run nightly --channel preview --json"],
  async run(context, { job, ...given }) {
    const scope = await findScope(context, given);
    const id = await findJobId(scope, job);
    const { run } = await postOnce(context, scope.api, `/projects/${scope.projectId}/jobs/${id}/run`, jobRunReply);
    return { project: scope.project, run };
  },
  render({ run }, screen) {
    const reason = reasonOf(run);
    return [
      `${screen.paint("green", "✓")} ${run.jobName} on ${run.channel} is ${runState(run, screen)}${reason === null ? "" : `: ${reason}`}`,
      `  Follow it with \`svc jobs logs ${run.id} --follow\``,
    ].join("\n");
  },
});
