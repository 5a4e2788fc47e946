import { plural, projectListReply } from "@svc/proto";
import { command } from "../../command.ts";
import { table } from "../../format.ts";
import { paintStatus } from "../../paint.ts";

export const projectsList = command({
  name: "projects list",
  summary: "List your projects, newest first",
  examples: ["svc projects list", "svc projects list --json"],
  async run(context) {
    const { projects } = await (await context.api()).get("/projects", projectListReply);
    return {
      projects: projects.map(
        ({ id, slug, name, type, url, status, passwordProtected, suspendedAt, suspendReason }) => ({
          id,
          slug,
          name,
          type,
          url,
          status,
          passwordProtected,
          ...(suspendedAt === null ? {} : { suspendedAt, suspendReason }),
        }),
      ),
    };
  },
  render: ({ projects }, { paint }) => {
    if (projects.length === 0) return "No projects yet. Make one with `svc deploy`";
    const header = ["SLUG", "NAME", "TYPE", "STATUS", "URL"].map((cell) => paint("dim", cell));
    const rows = projects.map((project) => [
      project.slug,
      project.name,
      project.type,
      "suspendedAt" in project ? paint("red", "suspended") : paintStatus(paint, project.status ?? "never deployed"),
      project.passwordProtected ? `${project.url} ${paint("dim", "(password)")}` : project.url,
    ]);
    return `${table([header, ...rows])}\n\n${paint("dim", plural(projects.length, "project"))}`;
  },
});
