import { alertSecretReply } from "@svc/proto";
import { alertsPath, setExample as example } from "../../../alerts/alerts.ts";
import { keepSecret } from "../../../alerts/secret.ts";
import { argument, command, flag } from "../../../command.ts";
import { getProject, projectFacts } from "../../../target.ts";

export const alertsWebhookSet = command({
  name: "alerts webhook set",
  summary: "Have an address of yours called with each alert",
  details:
    "Deliveries are signed with a secret, which is written to a new file that only you can read (mode 0600), and never printed. A first one is sent at once; `svc alerts show` tells whether it was taken. An address that was set before is replaced, and its secret is void.",
  flags: { project: flag.project, file: flag.text("--file <new-path>", "Where to write the secret") },
  arguments: { url: argument.required("url", "The address, https://…") },
  examples: [example],
  async run(context, { project: named, url, file }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const kept = await keepSecret(context, { file, example }, () =>
      api.put(`${alertsPath(project.id)}/webhook`, alertSecretReply, { body: { url } }),
    );
    return { project: projectFacts(project), ...kept };
  },
  render: ({ webhook, file }, { paint }) =>
    `${paint("green", "✓")} ${webhook.url} is called with each alert. Its secret is in ${file}`,
});
