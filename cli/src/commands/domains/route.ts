import { domainReply, routingTargets } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { getDomain, targetOf } from "../../domains/domain.ts";

export const domainsRoute = command({
  name: "domains route",
  summary: "Lead a domain to another channel, or nowhere",
  details:
    "A channel that has no deployment yet serves the domain once it has one. `disabled` keeps the domain attached and verified, and serves nothing there.",
  flags: { project: flag.project },
  arguments: {
    domain: argument.required("domain", "The domain; see `svc domains ls`"),
    target: argument.choice("target", "Where it leads", routingTargets),
  },
  examples: [
    "svc domains route shop.example.net preview",
    "svc domains route shop.example.net disabled --project shop",
  ],
  async run(context, { project: named, domain: text, target: routingTarget }) {
    const { project, path } = await getDomain(context, named, text);
    const api = await context.api();
    const { domain } = await api.patch(path, domainReply, { body: { routingTarget } });
    return { project, domain, queued: true };
  },
  render: ({ domain }, { paint }) => {
    const { domain: name, redirectTo, routingTarget } = domain;
    const done = `${paint("green", "✓")} ${name} leads to ${targetOf(domain)}`;
    if (redirectTo === null || routingTarget === "disabled") return done;
    return `${done}, and to ${routingTarget} after ${paint("cyan", `svc domains redirect ${name} off`)}`;
  },
});
