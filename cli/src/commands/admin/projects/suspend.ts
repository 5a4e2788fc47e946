import { suspendProjectReply } from "@svc/proto";
import { getAnyProject } from "../../../any-project.ts";
import { argument, command } from "../../../command.ts";

export const adminProjectsSuspend = command({
  name: "admin projects suspend",
  summary: "Take a project off the air: its containers stop and its sites say that they are suspended",
  arguments: { project: argument.required("slug or id", "The project, whoever owns it") },
  examples: ["svc admin projects suspend shop"],
  async run(context, { project: named }) {
    const api = await context.api();
    const project = await getAnyProject(api, named);
    const { suspended, queued } = await api.post(`/admin/projects/${project.id}/suspend`, suspendProjectReply);
    return { project: { id: project.id, slug: project.slug }, queued, suspended };
  },
  render: ({ project }, { paint }) =>
    `${paint("green", "✓")} ${project.slug} is suspended; its containers are being stopped`,
});
