import { plural } from "@svc/proto";
import { listAllProjects } from "../../../admin-pages.ts";
import { command } from "../../../command.ts";
import { listing } from "../../../listing.ts";
import { paintStatus } from "../../../paint.ts";

export const adminProjectsList = command({
  name: "admin projects list",
  summary: "List everybody's projects",
  examples: ["svc admin projects list"],
  run: async (context) => {
    const { rows: projects, complete } = await listAllProjects(await context.api());
    if (!complete) context.warn(`There are more; these are the newest ${projects.length}`);
    return { projects };
  },
  render: ({ projects }, screen) => {
    const { paint } = screen;
    const header = ["SLUG", "OWNER", "TYPE", "STATUS", "REQUESTS 30 D", "ID"];
    const rows = projects.map((project) => [
      project.slug,
      project.ownerEmail,
      project.type,
      project.suspendedAt === null
        ? paintStatus(paint, project.status ?? "never deployed")
        : paint("red", `suspended (${project.suspendReason ?? "admin"})`),
      String(project.requests30d),
      project.id,
    ]);
    return `${listing(header, rows, screen, { alignRight: [4] })}\n\n${paint("dim", plural(projects.length, "project"))}`;
  },
});
