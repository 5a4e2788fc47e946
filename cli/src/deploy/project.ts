import {
  createProjectReply,
  type DeployMode,
  type Manifest,
  manifestName,
  manifestType,
  type Project,
  projectDetailReply,
  slugProblem,
} from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { findTypeTrouble, goneTrouble, haveRun, type LinkTrouble, troubleError } from "../link-trouble.ts";
import { explicitSlug, type ManifestPlace } from "../manifest-file.ts";
import { postOnce } from "../post-once.ts";
import { readState, writeState } from "../state.ts";
import { findProjectBySlug, findReference } from "../target.ts";
import { warnOfLostProject } from "./keep-slug.ts";

/**
 * The project to deploy to. `deployMode` and `url`, that of production, are null where the key may not read them.
 * `isFirst`: it was made from here, and nothing of it has ever run.
 */
export interface DeployTarget {
  id: string;
  slug: string | null;
  deployMode: DeployMode | null;
  url: string | null;
  isFirst: boolean;
}

/**
 * The project that a deploy here would go to; null when there is none yet. A type that differs from the manifest's is
 * refused. `mend` is asked when the link of this directory is of no use, and says whether there is none any more.
 */
export async function findDeployTarget(
  context: Context,
  api: Api,
  manifest: Manifest,
  named: string | undefined,
  mend: (trouble: LinkTrouble) => Promise<boolean> = async () => false,
): Promise<DeployTarget | null> {
  const reference = await findReference(context, named);
  if (reference === null) return null;
  if ("id" in reference) {
    const found = await readTarget(api, manifest, reference, named === undefined);
    if (!("kind" in found)) return found;
    if (await mend(found)) return findDeployTarget(context, api, manifest, named);
    throw troubleError(found);
  }
  const project = await findProjectBySlug(api, reference.slug);
  if (project !== null) {
    requireType(manifest, project);
    return targetOf(project);
  }
  if (named === undefined) return null;
  throw new CliError("CLOUD_NOT_FOUND", `You have no project with the slug "${named}"`, {
    hint: "See your projects with `svc projects list`, or leave --project out to make a new one",
  });
}

/** A project known by its id. A narrow key may deploy to it without being allowed to look at it. */
async function readTarget(
  api: Api,
  manifest: Manifest,
  reference: { id: string; slug: string | null },
  isLink: boolean,
): Promise<DeployTarget | LinkTrouble> {
  try {
    const reply = await api.get(`/projects/${reference.id}`, projectDetailReply);
    const trouble = isLink ? await findTypeTrouble(api, reply, manifestType(manifest)) : null;
    if (trouble !== null) return trouble;
    requireType(manifest, reply.project);
    return targetOf(reply.project, { isFirst: isLink && !haveRun(reply.deployments) });
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    if (thrown.code === "CLOUD_FORBIDDEN_SCOPE") return { ...reference, deployMode: null, url: null, isFirst: false };
    if (!isLink) throw thrown;
    return goneTrouble(reference, thrown);
  }
}

const targetOf = (
  { id, slug, deployMode, url }: Pick<Project, "id" | "slug" | "deployMode" | "url">,
  { isFirst = false } = {},
): DeployTarget => ({ id, slug, deployMode, url, isFirst });

function requireType(manifest: Manifest, project: { slug: string; type: string }): void {
  const type = manifestType(manifest);
  if (project.type === type) return;
  throw new CliError(
    "MANIFEST_INVALID",
    `The project ${project.slug} is ${project.type}, but the manifest says ${type}`,
    {
      hint: "The type of a project never changes: mend the manifest, or give it another slug",
    },
  );
}

/** Makes the project that the manifest describes and links this directory to it at once, so that a failed upload makes no second one. */
export async function createDeployTarget(
  context: Context,
  api: Api,
  manifest: Manifest,
  place: ManifestPlace,
): Promise<DeployTarget> {
  const slug = explicitSlug(manifest);
  const problem = slug === null ? null : slugProblem(slug);
  if (problem !== null)
    throw new CliError("MANIFEST_INVALID", `${place.path} names a slug that no new project can have: ${problem}`, {
      hint: "Write another slug there, or leave it out to get one that is made from the name",
    });
  const body = { name: manifestName(manifest), type: manifestType(manifest), ...(slug === null ? {} : { slug }) };
  const { project } = await postOnce(context, api, "/projects", createProjectReply, { body });
  context.terminal.step(`Made the project ${project.slug}`, "done");
  await link(place, project);
  if (!context.terminal.interactive) await warnOfLostProject(context, place, manifest, project.slug);
  // What a new project starts with.
  return targetOf({ ...project, deployMode: "auto" }, { isFirst: true });
}

/** Links this directory to the project that it was deployed to, unless it is linked already. */
export async function linkOnce(
  place: ManifestPlace,
  project: { id: string; slug: string; type: string; name: string },
): Promise<void> {
  if ((await readState(place.directory)) === null) await link(place, project);
}

const link = (
  place: ManifestPlace,
  { id, slug, name, type }: { id: string; slug: string; name: string; type: string },
) => writeState(place.directory, { id, slug, name, type });
