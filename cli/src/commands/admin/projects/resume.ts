import { resumeProjectReply } from "@svc/proto";
import { getAnyProject } from "../../../any-project.ts";
import { argument, command } from "../../../command.ts";

export const adminProjectsResume = command({
  name: "admin projects resume",
  summary: "Put a suspended project back on the air",
  arguments: { project: argument.required("slug or id", "The project, whoever owns it") },
  examples: ["svc admin projects resume shop"],
  async run(context, { project: named }) {
    const api = await context.api();
    const project = await getAnyProject(api, named);
    const { queued } = await api.post(`/admin/projects/${project.id}/resume`, resumeProjectReply);
    return { project: { id: project.id, slug: project.slug }, queued };
  },
  render: ({ project }, { paint }) => `${paint("green", "✓")} ${project.slug} is being started again`,
});
