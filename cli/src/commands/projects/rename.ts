import { type Project, projectDetailReply, renameProjectReply } from "@svc/proto";
import type { Api } from "../../api.ts";
import { argument, command, flag } from "../../command.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { explicitSlug, findManifest } from "../../manifest-file.ts";
import { poll } from "../../poll.ts";
import { readState, writeState } from "../../state.ts";
import { getProject, projectFacts } from "../../target.ts";

const waitMsMax = 60_000;
const pollMs = 1000;

export const projectsRename = command({
  name: "projects rename",
  summary: "Give a project another slug, and so another address",
  details: "The site is served all the while, and its address of before redirects to the new one.",
  flags: { project: flag.project },
  arguments: { newSlug: argument.required("newSlug", "The slug that it is to have") },
  examples: ["svc projects rename corner-shop", "svc projects rename corner-shop --project shop"],
  async run(context, { project: named, newSlug }) {
    const { project: before } = await getProject(context, named);
    const api = await context.api();
    await api.put(`/projects/${before.id}`, renameProjectReply, { body: { slug: newSlug } });
    context.onInterrupt("The project is renamed without you. See with `svc projects list`");
    const project = await waitForSlug(context, api, before, newSlug);
    await relink(context, before, project);
    return { url: project.url, project: projectFacts(project), oldSlug: before.slug, newSlug };
  },
  render: ({ url, oldSlug, newSlug }, { paint }) =>
    `${paint("green", "✓")} Renamed ${oldSlug} to ${newSlug}\n  ${paint("bold", url)}`,
});

/** The project once it has its new slug. CLOUD_REQUEST_FAILED when that takes more than a minute. */
async function waitForSlug(context: Context, api: Api, { id, slug }: Project, newSlug: string): Promise<Project> {
  const startedAtMs = context.clock.steadyMs();
  const activity = context.terminal.activity(`Renaming ${slug} to ${newSlug}`);
  try {
    return await poll(context, async () => {
      const { project } = await api.get(`/projects/${id}`, projectDetailReply);
      if (project.slug === newSlug) return { done: project };
      if (context.clock.steadyMs() - startedAtMs < waitMsMax) return { delayMs: pollMs };
      throw new CliError("CLOUD_REQUEST_FAILED", `${slug} is not called ${newSlug} after a minute; it may be yet`, {
        hint: "See what it is called with `svc projects list`",
      });
    });
  } finally {
    activity.stop();
  }
}

/** Lets this directory say what its project is called now; what only a person may change is pointed out. */
async function relink(context: Context, before: Project, { id, slug, name, type }: Project): Promise<void> {
  const place = await context.manifestPlace();
  const linked = await readState(place.directory).catch(ignoreDamage);
  if (linked?.id === id) await writeState(place.directory, { id, slug, name, type });
  const manifest = await findManifest(place).catch(ignoreDamage);
  if (manifest !== null && explicitSlug(manifest) === before.slug)
    context.warn(`${place.path} still says slug: ${before.slug}; write slug: ${slug} there`);
}

/** A damaged file here does not undo what was done on the platform. */
function ignoreDamage(thrown: unknown): null {
  if (thrown instanceof CliError) return null;
  throw thrown;
}
