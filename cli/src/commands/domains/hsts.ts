import { domainReply, limits } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { getDomain } from "../../domains/domain.ts";
import { CliError } from "../../errors.ts";

const daySeconds = 86_400;
const daysDefault = 365;
const daysMax = limits.hstsMaxAgeSecondsMax / daySeconds;

export const domainsHsts = command({
  name: "domains hsts",
  summary: "Have browsers ask for a domain over TLS alone",
  details:
    "They keep to that for the days that they are told, also when the domain leads elsewhere by then or has no certificate any more. `--days 0` has those who come forget it; `off` says nothing any more, and changes nothing for those who were told. The domain needs a certificate first.",
  flags: {
    project: flag.project,
    days: flag.integer("--days <n>", `For how long; default: ${daysDefault}, at most ${daysMax}`),
    includeSubdomains: flag.toggle("--include-subdomains", "All names below the domain, too, wherever they lead"),
  },
  arguments: {
    domain: argument.required("domain", "The domain; see `svc domains ls`"),
    off: { ...argument.optional("off", "Say nothing any more"), choices: ["off"] },
  },
  examples: [
    "svc domains hsts shop.example.net",
    "svc domains hsts example.net --days 30 --include-subdomains",
    "svc domains hsts shop.example.net off",
  ],
  async run(context, { project: named, domain: text, days, includeSubdomains, off }) {
    const hsts = readWanted({ days, includeSubdomains, off });
    const { project, path } = await getDomain(context, named, text);
    const api = await context.api();
    const { domain } = await api.patch(path, domainReply, { body: { hsts } });
    return { project, domain, queued: true };
  },
  render: ({ domain: { domain, hsts } }, { paint }) => {
    const done = paint("green", "✓");
    if (hsts === null) return `${done} Browsers are told nothing of ${domain} any more`;
    if (hsts.maxAgeSeconds === 0) return `${done} Browsers that come to ${domain} forget that it is for TLS alone`;
    const what = hsts.includeSubdomains ? `${domain} and all below it` : domain;
    return `${done} Browsers ask for ${what} over TLS alone, for ${hsts.maxAgeSeconds / daySeconds} days from each visit`;
  },
});

/** Null: nothing. Throws CLI_INVALID_USAGE for what goes with nothing, or is too much. */
function readWanted(given: { days: number | undefined; includeSubdomains: boolean; off: string | undefined }) {
  const { days = daysDefault, includeSubdomains, off } = given;
  if (off !== undefined && off !== "off")
    throw new CliError("CLI_INVALID_USAGE", `"${off}" says nothing of browsers: it is off, or left out`, {
      hint: "Say for how long with --days: `svc domains hsts <domain> --days 30`",
    });
  if (off === "off" && (given.days !== undefined || includeSubdomains))
    throw new CliError("CLI_INVALID_USAGE", "off goes with no flag", {
      hint: "Give either: `svc domains hsts <domain> off`",
    });
  if (days < 0 || days > daysMax)
    throw new CliError("CLI_INVALID_USAGE", `--days is 0 to ${daysMax}`, {
      hint: `Leave it out for a year: \`svc domains hsts <domain>\``,
    });
  return off === "off" ? null : { maxAgeSeconds: days * daySeconds, includeSubdomains };
}
