import { customDomain, domainListReply } from "@svc/proto";
import { z } from "zod";
import { domainsPath, reasonsOf } from "../../domains/domain.ts";
import { countFitting } from "../fit.ts";
import { tool, untrusted } from "../tool.ts";
import { takes } from "./fields.ts";

const domainFields = customDomain.omit({ reason: true, certificate: true }).extend({
  certificateStatus: z.string().nullable(),
});

const listDomains = tool({
  name: "list_domains",
  title: "List domains",
  description:
    "Names of its own at which the project answers: how far each is, where it leads, and the DNS records that it still needs.",
  effect: "reads",
  input: { cursor: takes.cursor },
  output: {
    domains: z.array(domainFields),
    maxCustomDomains: z.number(),
    nextCursor: z.string().nullable(),
    untrusted: untrusted({ reasons: z.record(z.string(), z.array(z.string())).describe("What is wrong, by domain") }),
  },
  async run(call, { cursor }) {
    const { id } = await call.target();
    const { domains: all, maxCustomDomains } = await call.api.get(domainsPath(id), domainListReply);
    const from = Number(cursor ?? 0);
    const rest = all.slice(from);
    const count = countFitting(rest);
    const shown = rest.slice(0, count);
    return {
      domains: shown.map(({ reason: _reason, certificate, ...each }) => ({
        ...each,
        certificateStatus: certificate?.status ?? null,
      })),
      maxCustomDomains,
      nextCursor: count < rest.length ? String(from + count) : null,
      untrusted: {
        reasons: Object.fromEntries(
          shown.flatMap((each) => (reasonsOf(each).length === 0 ? [] : [[each.domain, reasonsOf(each)]])),
        ),
      },
    };
  },
});

export const domainTools = [listDomains];
