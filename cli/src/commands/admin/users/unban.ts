import { banUserReply } from "@svc/proto";
import { accountFacts, getAccount } from "../../../accounts.ts";
import { argument, command } from "../../../command.ts";

export const adminUsersUnban = command({
  name: "admin users unban",
  summary: "Lift the ban of an account",
  arguments: { user: argument.required("user", "Its email address or id") },
  examples: ["svc admin users unban eve@example.test"],
  async run(context, { user: named }) {
    const api = await context.api();
    const user = await getAccount(api, named);
    const { banned } = await api.post(`/admin/users/${user.id}/unban`, banUserReply);
    return { user: accountFacts(user), banned };
  },
  render: ({ user }, { paint }) => `${paint("green", "✓")} ${user.email} is not banned`,
});
