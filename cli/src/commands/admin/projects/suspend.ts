import { suspendProjectReply } from "@svc/proto";
import { actOnAnyProject } from "../../../any-project.ts";
import { argument, command } from "../../../command.ts";

export const adminProjectsSuspend = command({
  name: "admin projects suspend",
  summary: "Take a project off the air: its containers stop and its sites say that they are suspended",
  arguments: { project: argument.required("slug or id", "The project, whoever owns it") },
  examples: ["svc admin projects suspend shop"],
  async run(context, { project: named }) {
    const { project, answer } = await actOnAnyProject(await context.api(), named, "suspend", suspendProjectReply);
    return { project, queued: answer.queued, suspended: answer.suspended };
  },
  render: ({ project }, { paint }) =>
    `${paint("green", "✓")} ${project.slug ?? project.id} is suspended; its containers are being stopped`,
});
