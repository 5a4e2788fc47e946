import { adminPlansReply } from "@svc/proto";
import { command } from "../../../command.ts";
import { listing } from "../../../listing.ts";

export const adminPlansList = command({
  name: "admin plans list",
  summary: "List the plans and how many accounts have them",
  details: "Of memory and processor time: what is set aside for a container, and what it may take at most.",
  examples: ["svc admin plans list"],
  run: async (context) => {
    const { plans } = await (await context.api()).get("/admin/plans", adminPlansReply);
    return { plans };
  },
  render: ({ plans }, screen) => {
    const { paint } = screen;
    const header = ["SLUG", "NAME", "ACCOUNTS", "MEMORY", "CPU", "REPLICAS", "PROJECTS", "DEPLOYS/H", "REQUESTS/MONTH"];
    const rows = plans.map((plan) => [
      plan.isDefault ? `${plan.slug} ${paint("dim", "(default)")}` : plan.slug,
      plan.name,
      String(plan.userCount),
      `${plan.reservedMemoryMb ?? plan.memoryMb}/${plan.memoryMb} MiB`,
      `${plan.reservedCpuMillicores ?? plan.cpuMillicores}/${plan.cpuMillicores} m`,
      String(plan.maxReplicas),
      String(plan.maxProjects),
      String(plan.maxDeploysPerHour),
      plan.monthlyRequests === null ? "no limit" : String(plan.monthlyRequests),
    ]);
    return listing(header, rows, screen, { alignRight: [2, 3, 4, 5, 6, 7, 8] });
  },
});
