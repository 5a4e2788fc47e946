import { deleteProjectReply, projectDetailReply } from "@svc/proto";
import { argument, command } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { deleteState, readState } from "../../state.ts";
import { resolveTarget } from "../../target.ts";

export const projectsDelete = command({
  name: "projects delete",
  summary: "Delete a project with everything that belongs to it",
  arguments: { project: argument.required("slug or id", "The project") },
  examples: ["svc projects delete shop", "svc projects delete shop --yes"],
  async run(context, { project: named }) {
    requireAnswerable(context, `This deletes the project ${named}, its deployments, variables and databases.`);
    const { id } = await resolveTarget(context, named);
    const api = await context.api();
    const { project } = await api.get(`/projects/${id}`, projectDetailReply);
    await confirmLoss(context, {
      loss: `This deletes ${project.name} (${project.url}), its deployments, variables and databases.`,
      name: project.slug,
    });
    await api.delete(`/projects/${id}`, deleteProjectReply);
    await unlink(context, id);
    return { project: { id, slug: project.slug, name: project.name }, deleted: true };
  },
  render: ({ project }, { paint }) => `${paint("green", "✓")} Deleted ${project.slug}`,
});

/** Removes the link to a project that is gone, so that the next deploy here makes a new one. */
async function unlink(context: Context, id: string): Promise<void> {
  const { directory } = await context.manifestPlace();
  const linked = await readState(directory).catch((thrown: unknown) => {
    if (thrown instanceof CliError) return null;
    throw thrown;
  });
  if (linked?.id === id) await deleteState(directory);
}
