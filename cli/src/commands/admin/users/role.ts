import { userRoleReply, userRoles } from "@svc/proto";
import { accountFacts, getAccount } from "../../../accounts.ts";
import { argument, command } from "../../../command.ts";

export const adminUsersRole = command({
  name: "admin users role",
  summary: "Make an account an administrator, or a user again",
  arguments: {
    user: argument.required("user", "Its email address or id"),
    role: argument.choice("role", "What it is to be", userRoles),
  },
  examples: ["svc admin users role ada@example.test admin"],
  async run(context, { user: named, role: wanted }) {
    const api = await context.api();
    const user = await getAccount(api, named);
    const { role } = await api.post(`/admin/users/${user.id}/role`, userRoleReply, { body: { role: wanted } });
    return { user: accountFacts(user), role };
  },
  render: ({ user, role }, { paint }) => `${paint("green", "✓")} ${user.email} has the role ${role}`,
});
