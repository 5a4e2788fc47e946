import { type DeploymentStatus, lifecycleReply, projectDetailReply } from "@svc/proto";
import { command, flag } from "./command.ts";
import { lineWatcher, waitForDeployment } from "./deploy/wait.ts";
import { CliError } from "./errors.ts";
import { paintStatus } from "./paint.ts";
import { getProject, projectFacts } from "./target.ts";

/** Statuses between which stop and start move a deployment; any other means that something else came between. */
const movable: readonly DeploymentStatus[] = ["running", "stopped", "deploying"];

const replaced = "A newer deployment has replaced this one meanwhile (superseded)";

/** `svc stop` and `svc start`: queue the action, then watch the production deployment until it is `goal`. */
export const lifecycle = (verb: {
  name: "stop" | "start";
  summary: string;
  /** While it goes on: "Stopping". */
  doing: string;
  examples: readonly string[];
  goal: "stopped" | "running";
}) =>
  command({
    name: verb.name,
    summary: verb.summary,
    flags: { project: flag.project, wait: flag.toggle("--no-wait", "Return once the action is queued") },
    examples: verb.examples,
    async run(context, { project: named, wait }) {
      const { project } = await getProject(context, named);
      const api = await context.api();
      const { deploymentId, jobId, warnings } = await api.post(`/projects/${project.id}/${verb.name}`, lifecycleReply);
      const facts = { url: project.url, project: projectFacts(project), ...(jobId === undefined ? {} : { jobId }) };
      for (const warning of warnings ?? []) context.warn(warning);
      if (!wait) return { ...facts, queued: true };
      context.onInterrupt("It goes on without you. See how it ended with `svc status`");
      const watch = (watched: string) =>
        waitForDeployment(context, api, watched, {
          // A start that failed leaves the site stopped and says why.
          isOver: (each, why) =>
            each === verb.goal ||
            !movable.includes(each) ||
            (verb.name === "start" && each === "stopped" && why !== null),
          watcher: lineWatcher(context, verb.doing),
        });
      let ended = await watch(deploymentId);
      if (ended.status === "superseded") {
        // A deploy took over meanwhile; it is what the action is for then.
        const { deployments } = await api.get(`/projects/${project.id}`, projectDetailReply);
        const next = deployments.find((each) => each.channel === "production" && movable.includes(each.status));
        if (next !== undefined) ended = await watch(next.id);
      }
      const { id, status, error } = ended;
      if (status !== verb.goal)
        throw new CliError(
          "DEPLOY_FAILED",
          error ?? (status === "superseded" ? replaced : `The deployment is ${status}`),
          {
            hint: "See what runs with `svc status`",
          },
        );
      return { ...facts, deployment: { id, status } };
    },
    render: (payload, { paint }) =>
      "deployment" in payload
        ? `${paint("green", "✓")} ${payload.project.slug} is ${paintStatus(paint, payload.deployment.status)}`
        : `${paint("green", "✓")} Queued. See how it goes with \`svc status\``,
  });
