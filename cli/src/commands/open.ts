import { channels } from "@svc/proto";
import { openBrowser } from "../browser.ts";
import { command, flag } from "../command.ts";
import { addressedOn } from "../deploy/choose.ts";
import { listDeployments } from "../deploy/redeploy.ts";
import { webUrl } from "../origin.ts";
import { getProject } from "../target.ts";

export const open = command({
  name: "open",
  summary: "Print the project's address, and open it in a browser",
  details: "A browser is opened only where a person sits at a terminal.",
  flags: {
    project: flag.project,
    channel: flag.choice("--channel <channel>", "That of what runs on this channel; default: production", channels),
  },
  examples: ["svc open", "svc open --project shop", "svc open --channel preview"],
  async run(context, { project: named, channel = "production" }) {
    const { project } = await getProject(context, named);
    const list = async () =>
      listDeployments(await context.api(), project.id, `channel=${channel}&status=running&limit=100`);
    const url = channel === "production" ? project.url : addressedOn(await list(), channel).url;
    const address = webUrl(url);
    if (address === null) context.warn("The address of the project is not a web address; it was not opened");
    else if (context.terminal.interactive) openBrowser(address);
    return { url, channel, project: { slug: project.slug } };
  },
  render: ({ url }) => url,
});
