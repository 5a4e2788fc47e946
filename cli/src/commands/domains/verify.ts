import { domainReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { getDomain, recordLines } from "../../domains/domain.ts";

export const domainsVerify = command({
  name: "domains verify",
  summary: "Look at a domain's DNS records now, and for another 48 hours",
  flags: { project: flag.project },
  arguments: { domain: argument.required("domain", "The domain; see `svc domains ls`") },
  examples: ["svc domains verify shop.example.net", "svc domains verify shop.example.net --project shop --json"],
  async run(context, { project: named, domain: text }) {
    const { project, path } = await getDomain(context, named, text);
    const api = await context.api();
    const { domain } = await api.post(`${path}/verify`, domainReply);
    return { project, domain, queued: true };
  },
  render: ({ domain }, screen) => {
    const records = recordLines(domain, screen);
    return [
      `${screen.paint("green", "✓")} The platform looks at ${domain.domain} now; see what it finds with \`svc domains ls\``,
      ...(records.length === 0 ? [] : ["", "These records have to be there:", ...records]),
    ].join("\n");
  },
});
