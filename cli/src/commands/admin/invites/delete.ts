import { deleteInviteReply } from "@svc/proto";
import { argument, command } from "../../../command.ts";

export const adminInvitesDelete = command({
  name: "admin invites delete",
  summary: "Take an invitation back; its code stops working",
  arguments: { id: argument.required("id", "Its id, as `svc admin invites list` shows it") },
  examples: ["svc admin invites delete 3f0c0f0e-6f0a-4a52-9d1b-0a6f5f1c2b3d"],
  async run(context, { id: named }) {
    const { id } = await (await context.api()).delete(`/admin/invites/${encodeURIComponent(named)}`, deleteInviteReply);
    return { id, deleted: true };
  },
  render: (_payload, { paint }) => `${paint("green", "✓")} The invitation is taken back`,
});
