import { resumeProjectReply } from "@svc/proto";
import { actOnAnyProject } from "../../../any-project.ts";
import { argument, command } from "../../../command.ts";

export const adminProjectsResume = command({
  name: "admin projects resume",
  summary: "Put a suspended project back on the air",
  arguments: { project: argument.required("slug or id", "The project, whoever owns it") },
  examples: ["svc admin projects resume shop"],
  async run(context, { project: named }) {
    const { project, answer } = await actOnAnyProject(await context.api(), named, "resume", resumeProjectReply);
    return { project, queued: answer.queued };
  },
  render: ({ project }, { paint }) => `${paint("green", "✓")} ${project.slug ?? project.id} is being started again`,
});
