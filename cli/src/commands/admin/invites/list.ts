import { invitesReply } from "@svc/proto";
import { command } from "../../../command.ts";
import { formatAge, formatExpiry } from "../../../format.ts";
import { listing } from "../../../listing.ts";

export const adminInvitesList = command({
  name: "admin invites list",
  summary: "List invitations, newest first",
  examples: ["svc admin invites list"],
  run: async (context) => {
    const { invites } = await (await context.api()).get("/admin/invites", invitesReply);
    return { invites };
  },
  render: ({ invites }, screen) => {
    const { paint, now } = screen;
    if (invites.length === 0) return "Nobody is invited. Invite somebody with `svc admin invites create <email>`";
    const header = ["EMAIL", "STATUS", "CREATED", "VALID", "ID"];
    const rows = invites.map((invite) => [
      invite.email,
      invite.status === "open" ? paint("green", invite.status) : paint("dim", invite.status),
      formatAge(invite.createdAt, now),
      formatExpiry(invite.expiresAt, now),
      invite.id,
    ]);
    return listing(header, rows, screen);
  },
});
