import { isJobRunOver, jobRunReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { findScope, runIdOf } from "../../jobs/find.ts";
import { runState } from "../../jobs/lines.ts";
import { runPath } from "../../jobs/output.ts";

export const jobsCancel = command({
  name: "jobs cancel",
  summary: "End a run of a job",
  details:
    "One that has not begun is canceled at once. One that runs is asked to end (SIGTERM), and killed if it does not.",
  flags: { project: flag.project },
  arguments: { runId: argument.required("runId", "The run; see `svc jobs runs`") },
  examples: ["svc jobs cancel 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f"],
  async run(context, { project: named, runId: text }) {
    const runId = runIdOf(text);
    const { api, projectId, project } = await findScope(context, { project: named });
    const { run } = await api.post(`${runPath({ projectId, runId })}/cancel`, jobRunReply);
    return { project, run };
  },
  render({ run }, screen) {
    const { paint } = screen;
    if (run.status === "canceled") return `${paint("green", "✓")} The run of ${run.jobName} is canceled`;
    if (isJobRunOver(run.status))
      return `${paint("dim", "-")} The run of ${run.jobName} was over already: ${runState(run, screen)}`;
    return `${paint("green", "✓")} The run of ${run.jobName} was asked to end. See how it goes with \`svc jobs logs ${run.id} --follow\``;
  },
});
