import { domainReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { getDomain, targetOf } from "../../domains/domain.ts";

export const domainsRedirect = command({
  name: "domains redirect",
  summary: "Send visitors of a domain on to another one of the project",
  details:
    "They are sent (308) to the same path and query there. The other one is a verified domain of the project, or its own host; while it is disabled or lost, the domain serves as `svc domains route` says. `off` has it serve again.",
  flags: { project: flag.project },
  arguments: {
    domain: argument.required("domain", "The domain; see `svc domains ls`"),
    target: argument.required("target", "Where visitors are sent, or off"),
  },
  examples: [
    "svc domains redirect www.example.net example.net",
    "svc domains redirect old.example.net off --project shop",
  ],
  async run(context, { project: named, domain: text, target }) {
    const { project, path } = await getDomain(context, named, text);
    const api = await context.api();
    const redirectTo = target === "off" ? null : target;
    const { domain } = await api.patch(path, domainReply, { body: { redirectTo } });
    return { project, domain, queued: true };
  },
  render: ({ domain }, { paint }) =>
    `${paint("green", "✓")} ${domain.domain} ${domain.redirectTo === null ? "leads to" : "redirects to"} ${targetOf(domain)}`,
});
