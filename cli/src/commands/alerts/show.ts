import { alertsReply } from "@svc/proto";
import { alertLines, alertsPath } from "../../alerts/alerts.ts";
import { command, flag } from "../../command.ts";
import { getProject, projectFacts } from "../../target.ts";

export const alertsShow = command({
  name: "alerts show",
  summary: "Show what you are told of the project, how, and what is wrong now",
  flags: { project: flag.project },
  examples: ["svc alerts show", "svc alerts show --project shop --json"],
  async run(context, { project: named }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const { alerts } = await api.get(alertsPath(project.id), alertsReply);
    return { project: projectFacts(project), alerts };
  },
  render: ({ alerts }, screen) => alertLines(alerts, screen).join("\n"),
});
