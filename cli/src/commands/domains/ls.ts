import { domainListReply, plural } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { certificateOf, domainsPath, reasonsOf, recordLines, stateOf, targetOf } from "../../domains/domain.ts";
import { listing } from "../../listing.ts";
import { getProject, projectFacts } from "../../target.ts";

export const domainsLs = command({
  name: "domains ls",
  summary: "List the project's domains, and what each still needs",
  flags: { project: flag.project },
  examples: ["svc domains ls", "svc domains ls --project shop --json"],
  async run(context, { project: named }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const { domains, maxCustomDomains } = await api.get(domainsPath(project.id), domainListReply);
    return { project: projectFacts(project), domains, maxCustomDomains };
  },
  render({ domains, maxCustomDomains }, screen) {
    if (domains.length === 0)
      return maxCustomDomains === 0
        ? "The plan does not include custom domains"
        : "No domains yet. Attach one with `svc domains add <domain>`";
    const rows = domains.map((each) => [
      each.domain,
      stateOf(each, screen),
      targetOf(each),
      each.dnsStatus,
      certificateOf(each, screen),
    ]);
    const below = domains.map((each) => [
      ...reasonsOf(each).map((reason) => `  ${screen.paint("yellow", "!")} ${reason}`),
      ...recordLines(each, screen),
    ]);
    const titles = ["DOMAIN", "STATUS", "LEADS TO", "DNS", "CERTIFICATE"];
    const count = `${domains.length} of ${plural(maxCustomDomains, "domain")}`;
    return [listing(titles, rows, screen, { below }), "", screen.paint("dim", count)].join("\n");
  },
});
