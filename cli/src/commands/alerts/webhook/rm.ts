import { alertsReply } from "@svc/proto";
import { alertsPath, webhookFailure } from "../../../alerts/alerts.ts";
import { command, flag } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";
import { getProject, projectFacts } from "../../../target.ts";

const loss = "The webhook is not called any more, and its secret is void.";

export const alertsWebhookRm = command({
  name: "alerts webhook rm",
  summary: "Have nothing called with alerts any more",
  flags: { project: flag.project },
  examples: ["svc alerts webhook rm", "svc alerts webhook rm --project shop --yes"],
  async run(context, { project: named }) {
    requireAnswerable(context, loss);
    const { project } = await getProject(context, named);
    await confirmLoss(context, { loss, name: project.slug });
    const api = await context.api();
    const { alerts } = await api.delete(`${alertsPath(project.id)}/webhook`, alertsReply, {
      failure: webhookFailure(project.slug),
    });
    return { project: projectFacts(project), alerts, deleted: true };
  },
  render: (_payload, { paint }) => `${paint("green", "✓")} Removed the webhook`,
});
