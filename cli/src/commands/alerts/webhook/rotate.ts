import { alertSecretReply, limits } from "@svc/proto";
import { alertsPath, webhookFailure } from "../../../alerts/alerts.ts";
import { keepSecret } from "../../../alerts/secret.ts";
import { command, flag } from "../../../command.ts";
import { getProject, projectFacts } from "../../../target.ts";

const example = "svc alerts webhook rotate --file webhook.secret";

export const alertsWebhookRotate = command({
  name: "alerts webhook rotate",
  summary: "Give the webhook another secret",
  details: `It is written to a new file that only you can read (mode 0600), and never printed. The one before signs as well for ${limits.webhookSecretOverlapHours} hours.`,
  flags: { project: flag.project, file: flag.text("--file <new-path>", "Where to write the secret") },
  examples: [example],
  async run(context, { project: named, file }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const kept = await keepSecret(context, { file, example }, () =>
      api.post(`${alertsPath(project.id)}/webhook/rotate`, alertSecretReply, {
        failure: webhookFailure(project.slug),
      }),
    );
    return { project: projectFacts(project), ...kept };
  },
  render: ({ webhook, file }, { paint }) =>
    `${paint("green", "✓")} The new secret is in ${file}; the one before is good until ${webhook.previousSecretUntil ?? "now"}`,
});
