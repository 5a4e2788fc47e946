import { userPlanReply } from "@svc/proto";
import { accountFacts, getAccount } from "../../../accounts.ts";
import { argument, command } from "../../../command.ts";

export const adminUsersPlan = command({
  name: "admin users plan",
  summary: "Give an account another plan; its running containers follow",
  arguments: {
    user: argument.required("user", "Its email address or id"),
    plan: argument.required("plan", "Slug of the plan"),
  },
  examples: ["svc admin users plan ada@example.test standard"],
  async run(context, { user: named, plan: wanted }) {
    const api = await context.api();
    const user = await getAccount(api, named);
    const { plan } = await api.post(`/admin/users/${user.id}/plan`, userPlanReply, { body: { plan: wanted } });
    return { user: accountFacts(user), plan };
  },
  render: ({ user, plan }, { paint }) => `${paint("green", "✓")} ${user.email} has the plan ${plan}`,
});
