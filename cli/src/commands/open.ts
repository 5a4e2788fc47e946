import { openBrowser } from "../browser.ts";
import { command, flag } from "../command.ts";
import { webUrl } from "../origin.ts";
import { getProject } from "../target.ts";

export const open = command({
  name: "open",
  summary: "Print the project's address, and open it in a browser",
  details: "A browser is opened only where a person sits at a terminal.",
  flags: { project: flag.project },
  examples: ["svc open", "svc open --project shop"],
  async run(context, { project: named }) {
    const { project } = await getProject(context, named);
    const address = webUrl(project.url);
    if (address === null) context.warn("The address of the project is not a web address; it was not opened");
    else if (context.terminal.interactive) openBrowser(address);
    return { url: project.url, project: { slug: project.slug } };
  },
  render: ({ url }) => url,
});
