import { domainReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { domainsPath, recordLines } from "../../domains/domain.ts";
import { getProject, projectFacts } from "../../target.ts";

export const domainsAdd = command({
  name: "domains add",
  summary: "Attach a domain, and print the DNS records that it needs",
  details:
    "The TXT record shows that the domain is yours, and stays for as long as it is attached. The other records lead visitors to the platform. It serves once the TXT record was found; the platform looks for it over 48 hours.",
  flags: { project: flag.project },
  arguments: { domain: argument.required("domain", "The name: example.net or shop.example.net") },
  examples: ["svc domains add shop.example.net", "svc domains add example.net --project shop --json"],
  async run(context, { project: named, domain: text }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const { domain } = await api.post(domainsPath(project.id), domainReply, { body: { domain: text } });
    return { project: projectFacts(project), domain, queued: true };
  },
  render: ({ project, domain }, screen) =>
    [
      `${screen.paint("green", "✓")} Added ${domain.domain} to ${project.slug}. Write these records into its zone:`,
      "",
      ...recordLines(domain, screen),
      "",
      `The platform looks for them by itself. To have it look now: ${screen.paint("cyan", `svc domains verify ${domain.domain}`)}`,
    ].join("\n"),
});
