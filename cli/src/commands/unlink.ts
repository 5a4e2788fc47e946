import { command } from "../command.ts";
import { CliError } from "../errors.ts";
import { deleteState, readState } from "../state.ts";

export const unlink = command({
  name: "unlink",
  summary: "Forget which project this directory is linked to",
  details:
    "Removes .svc/state.json, and nothing on the platform. The next deploy goes to the project of the manifest's slug, or makes one.",
  examples: ["svc unlink"],
  async run(context) {
    const { directory } = await context.manifestPlace();
    const linked = await readState(directory).catch((thrown: unknown) => {
      // What cannot be read can be forgotten all the same.
      if (thrown instanceof CliError) return null;
      throw thrown;
    });
    return { unlinked: await deleteState(directory), project: linked };
  },
  render: ({ unlinked, project }, { paint }) =>
    unlinked
      ? `${paint("green", "✓")} This directory is no longer linked${project === null ? "" : ` to ${project.slug}`}`
      : "This directory is not linked to a project",
});
