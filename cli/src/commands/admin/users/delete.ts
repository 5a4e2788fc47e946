import { deleteUserReply, plural } from "@svc/proto";
import { accountFacts, getAccount } from "../../../accounts.ts";
import { argument, command } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";

export const adminUsersDelete = command({
  name: "admin users delete",
  summary: "Delete an account with everything that it owns",
  arguments: { user: argument.required("user", "Its email address or id") },
  examples: ["svc admin users delete eve@example.test --yes"],
  async run(context, { user: named }) {
    requireAnswerable(context, `This deletes the account ${named}, its projects and everything in them.`);
    const api = await context.api();
    const user = await getAccount(api, named);
    await confirmLoss(context, {
      loss: `This deletes the account ${user.email}, its ${plural(user.projects, "project")} and everything in them.`,
      name: user.email,
    });
    await api.delete(`/admin/users/${user.id}`, deleteUserReply);
    return { user: accountFacts(user), deleted: true };
  },
  render: ({ user }, { paint }) => `${paint("green", "✓")} Deleting ${user.email}`,
});
