import { type CertificateAuthority, certificateAuthorityReply, plural } from "@svc/proto";
import { command, type Screen } from "../../../command.ts";
import { formatAge, formatExpiry } from "../../../format.ts";
import { listing } from "../../../listing.ts";

export const adminCaShow = command({
  name: "admin ca show",
  summary: "Show the certificate authority that machines are known by",
  examples: ["svc admin ca show"],
  async run(context) {
    const { ca } = await (await context.api()).get("/admin/ca", certificateAuthorityReply);
    return { ca };
  },
  render: ({ ca }, screen) => renderAuthority(ca, screen),
});

/** The authority for people, and which machines a replacement of it waits for. */
export function renderAuthority({ sha256, expiresAt, rotation, rotatedAt }: CertificateAuthority, screen: Screen) {
  const { paint, now } = screen;
  const facts = [`sha256  ${sha256}`, `valid   ${formatExpiry(expiresAt, now)}`];
  if (rotation === null) {
    const since = rotatedAt === null ? "It was never replaced" : `It replaced another one ${formatAge(rotatedAt, now)}`;
    return [...facts, since].join("\n");
  }
  const { previousSha256, startedAt, moved, waitingFor, waitingForCount } = rotation;
  const lines = [
    ...facts,
    `${paint("yellow", "replaces")} ${previousSha256}, since ${formatAge(startedAt, now)}`,
    `${plural(moved, "machine")} moved, ${waitingForCount} to go`,
  ];
  if (waitingFor.length === 0) return lines.join("\n");
  const header = ["NAME", "ROLE", "SEEN", "CERTIFICATE", "ID"];
  const rows = waitingFor.map(({ name, role, lastSeenAt, certificateExpiresAt, id }) => [
    ...[name, role, formatAge(lastSeenAt, now), formatExpiry(certificateExpiresAt, now), id],
  ]);
  return [
    ...lines,
    listing(header, rows, screen),
    "One that will not come back is waited for no more once it is fenced or removed, its certificate is over, or it was not seen for 30 days",
  ].join("\n");
}
