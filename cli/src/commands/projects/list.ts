import { plural, projectListReply } from "@svc/proto";
import { command } from "../../command.ts";
import { crashLines, shownStatus } from "../../crash-lines.ts";
import { listing } from "../../listing.ts";
import { paintStatus } from "../../paint.ts";

export const projectsList = command({
  name: "projects list",
  summary: "List your projects, newest first",
  examples: ["svc projects list", "svc projects list --json"],
  async run(context) {
    const { projects } = await (await context.api()).get("/projects", projectListReply);
    return {
      projects: projects.map(
        ({ id, slug, name, type, url, status, crashing, passwordProtected, suspendedAt, suspendReason }) => ({
          id,
          slug,
          name,
          type,
          url,
          status,
          ...(crashing ? { crashing } : {}),
          passwordProtected,
          ...(suspendedAt === null ? {} : { suspendedAt, suspendReason }),
        }),
      ),
    };
  },
  render: ({ projects }, screen) => {
    const { paint } = screen;
    if (projects.length === 0) return "No projects yet. Make one with `svc deploy`";
    const header = ["SLUG", "NAME", "TYPE", "STATUS", "URL"];
    const rows = projects.map((project) => [
      project.slug,
      project.name,
      project.type,
      "suspendedAt" in project
        ? paint("red", "suspended")
        : paintStatus(paint, shownStatus(project) ?? "never deployed"),
      project.passwordProtected ? `${project.url} ${paint("dim", "(password)")}` : project.url,
    ]);
    const below = projects.map((project) => crashLines(project, screen));
    return `${listing(header, rows, screen, { below })}\n\n${paint("dim", plural(projects.length, "project"))}`;
  },
});
