import { domainReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import { getDomain } from "../../domains/domain.ts";

export const domainsRm = command({
  name: "domains rm",
  summary: "Detach a domain; it stops serving at once",
  flags: { project: flag.project },
  arguments: { domain: argument.required("domain", "The domain; see `svc domains ls`") },
  examples: ["svc domains rm shop.example.net", "svc domains rm shop.example.net --project shop --yes"],
  async run(context, { project: named, domain: text }) {
    requireAnswerable(context, `This detaches ${text}.`);
    const { project, domain, path } = await getDomain(context, named, text);
    await confirmLoss(context, {
      loss: `${domain.domain} stops serving ${project.slug} at once; to attach it again it has to be verified anew.`,
      name: domain.domain,
    });
    const api = await context.api();
    await api.delete(path, domainReply);
    return { project, domain: { id: domain.id, domain: domain.domain }, deleted: true };
  },
  render: ({ domain }, { paint }) => `${paint("green", "✓")} Detached ${domain.domain}`,
});
