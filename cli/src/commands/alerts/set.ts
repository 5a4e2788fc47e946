import { alertEvents, alertsReply, type ChangeAlertsInput } from "@svc/proto";
import { alertLines, alertsPath, type Way, ways } from "../../alerts/alerts.ts";
import { argument, command, flag } from "../../command.ts";
import { getProject, projectFacts } from "../../target.ts";

const wayNames = Object.keys(ways) as Way[];

export const alertsSet = command({
  name: "alerts set",
  summary: "Choose how you are told of an event",
  details:
    "`all none` switches alerts off, and what you chose for each event is kept; `all` with anything else switches them on for every event.",
  flags: { project: flag.project },
  arguments: {
    event: argument.choice("event", "What you are told of", [...alertEvents, "all"]),
    by: argument.choice("by", "How", wayNames),
  },
  examples: ["svc alerts set deployFailed webhook", "svc alerts set all none --project shop"],
  async run(context, { project: named, event, by }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const { alerts } = await api.patch(alertsPath(project.id), alertsReply, { body: changeOf(event, by) });
    return { project: projectFacts(project), alerts };
  },
  render: ({ alerts }, screen) => alertLines(alerts, screen).join("\n"),
});

function changeOf(event: (typeof alertEvents)[number] | "all", by: Way): ChangeAlertsInput {
  if (event !== "all") return { events: { [event]: ways[by] } };
  if (by === "none") return { enabled: false };
  return { enabled: true, events: Object.fromEntries(alertEvents.map((each) => [each, ways[by]])) };
}
