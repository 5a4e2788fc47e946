import { createInviteReply } from "@svc/proto";
import { argument, command } from "../../../command.ts";
import { formatExpiry } from "../../../format.ts";

export const adminInvitesCreate = command({
  name: "admin invites create",
  summary: "Invite somebody: a code makes one account with that address",
  details:
    "A newer invitation of the same address replaces the one before. The platform mails the code if it sends mail.",
  arguments: { email: argument.required("email", "Address of whoever is invited") },
  examples: ["svc admin invites create ada@example.test"],
  async run(context, { email }) {
    const api = await context.api();
    const { id, inviteCode, expiresAt, mailed, note } = await api.post("/admin/invites", createInviteReply, {
      body: { email },
    });
    if (note !== null) context.warn(note);
    return { id, email, inviteCode, expiresAt, mailed };
  },
  render: ({ email, inviteCode, expiresAt, mailed }, { paint, now }) =>
    [
      `${paint("green", "✓")} Invited ${email}${mailed ? "; the code is in their mail" : ""}`,
      `  code  ${inviteCode}`,
      `  valid ${formatExpiry(expiresAt, now)}`,
    ].join("\n"),
});
