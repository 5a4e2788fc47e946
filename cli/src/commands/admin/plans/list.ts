import { adminPlansReply } from "@svc/proto";
import { command } from "../../../command.ts";
import { table } from "../../../format.ts";

export const adminPlansList = command({
  name: "admin plans list",
  summary: "List the plans and how many accounts have them",
  examples: ["svc admin plans list"],
  run: async (context) => {
    const { plans } = await (await context.api()).get("/admin/plans", adminPlansReply);
    return { plans };
  },
  render: ({ plans }, { paint }) => {
    const header = ["SLUG", "NAME", "ACCOUNTS", "MEMORY", "CPU", "REPLICAS", "PROJECTS", "DEPLOYS/H", "REQUESTS/MONTH"];
    const rows = plans.map((plan) => [
      plan.isDefault ? `${plan.slug} ${paint("dim", "(default)")}` : plan.slug,
      plan.name,
      String(plan.userCount),
      `${plan.memoryMb} MiB`,
      `${plan.cpuMillicores} m`,
      String(plan.maxReplicas),
      String(plan.maxProjects),
      String(plan.maxDeploysPerHour),
      plan.monthlyRequests === null ? "no limit" : String(plan.monthlyRequests),
    ]);
    return table([header.map((cell) => paint("dim", cell)), ...rows], [2, 3, 4, 5, 6, 7, 8]);
  },
});
