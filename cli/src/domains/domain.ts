import { domainToASCII } from "node:url";
import { type CustomDomain, domainListReply, leadsHere } from "@svc/proto";
import type { Screen } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { getProject, projectFacts } from "../target.ts";

export const domainsPath = (projectId: string): string => `/projects/${projectId}/domains`;

/** A name as the platform writes it, however it was typed. What is wrong with it the platform says. */
const written = (text: string): string => {
  const name = text.trim().replace(/\.$/, "");
  return domainToASCII(name) || name.toLowerCase();
};

/** A domain of the project that is meant. Throws CLOUD_NOT_FOUND for a name that it has not. */
export async function getDomain(
  context: Context,
  named: string | undefined,
  text: string,
): Promise<{ project: ReturnType<typeof projectFacts>; domain: CustomDomain; path: string }> {
  const { project } = await getProject(context, named);
  const api = await context.api();
  const { domains } = await api.get(domainsPath(project.id), domainListReply);
  const name = written(text);
  const domain = domains.find((each) => each.domain === name);
  if (domain === undefined)
    throw new CliError("CLOUD_NOT_FOUND", `${project.slug} has no domain ${name}`, {
      hint: `See which there are with \`svc domains ls --project ${project.slug}\``,
    });
  return { project: projectFacts(project), domain, path: `${domainsPath(project.id)}/${domain.id}` };
}

/** The records to write into the zone, one a line; nothing for a domain that needs none any more. */
export function recordLines({ domain, dnsStatus, records }: CustomDomain, { paint }: Pick<Screen, "paint">): string[] {
  if (records === undefined) return [];
  const { txtName, txtValue, cnameTarget, apex, aRecordIps, aaaaRecordIps } = records;
  const leads: [string, string, string][] = [
    ...aRecordIps.map((address): [string, string, string] => ["A", domain, address]),
    ...aaaaRecordIps.map((address): [string, string, string] => ["AAAA", domain, address]),
  ];
  const rows: [string, string, string][] = [
    ["TXT", txtName, txtValue],
    ...(apex && leads.length > 0 ? leads : [["CNAME", domain, cnameTarget] satisfies [string, string, string]]),
  ];
  const width = Math.max(...rows.map(([, name]) => name.length));
  return rows
    .filter(([type]) => type === "TXT" || !leadsHere(dnsStatus))
    .map(([type, name, value]) => `  ${paint("bold", type.padEnd(5))}  ${name.padEnd(width)}  ${value}`);
}

const stateStyles = { pending: "yellow", verified: "green", failed: "red" } as const;

/** How far a domain is, in its colour. */
export const stateOf = ({ status }: CustomDomain, { paint }: Pick<Screen, "paint">): string =>
  paint(stateStyles[status], status);

const certificateStyles = { none: "dim", pending: "yellow", issued: "green", failed: "red" } as const;

/** How far its certificate is, in its colour, and until when one is good that there is. */
export function certificateOf({ certificate }: CustomDomain, { paint }: Pick<Screen, "paint">): string {
  if (certificate === null) return "-";
  const { status, notAfter } = certificate;
  const state = paint(certificateStyles[status], status);
  return status !== "issued" || notAfter === null ? state : `${state}, until ${notAfter.slice(0, "2030-01-31".length)}`;
}

/** What is wrong with it, as sentences. */
export const reasonsOf = ({ reason, certificate }: CustomDomain): string[] => {
  const ofCertificate = certificate?.reason ?? null;
  return [
    ...(reason === null ? [] : [reason]),
    ...(ofCertificate === null ? [] : [`There is no new certificate: ${ofCertificate}`]),
  ];
};

/** Where visitors of a domain get. */
export const targetOf = ({ routingTarget, redirectTo }: CustomDomain): string =>
  routingTarget === "disabled" ? "nowhere (disabled)" : (redirectTo ?? routingTarget);
