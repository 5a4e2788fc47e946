import {
  type DeploymentStatus,
  deleteProjectReply,
  deploymentListReply,
  limits,
  type Project,
  type ProjectDetailReply,
  projectDetailReply,
} from "@svc/proto";
import type { Api } from "./api.ts";
import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";
import { deleteState } from "./state.ts";

/** The project that a directory is linked to; its slug may be unknown. */
interface Link {
  id: string;
  slug: string | null;
}

/** Why the project that a directory is linked to is none to deploy to. `hasRun`: something of it has run, or is about to. */
export type LinkTrouble =
  | { kind: "gone"; link: Link }
  | { kind: "type"; project: Pick<Project, "id" | "slug" | "type">; wanted: Project["type"]; hasRun: boolean };

/** Whether visitors have ever seen any of these. */
export const haveRun = (deployments: readonly { status: DeploymentStatus }[]): boolean =>
  deployments.some(({ status }) => status === "running" || status === "stopped" || status === "superseded");

/** What is wrong with a linked project for a manifest of type `wanted`; null when nothing is. */
export async function findTypeTrouble(
  api: Api,
  { project, deployments }: ProjectDetailReply,
  wanted: Project["type"],
): Promise<LinkTrouble | null> {
  if (project.type === wanted) return null;
  const hasRun = deployments.some(isMore) || (await hasMore(api, project.id));
  return { kind: "type", project, wanted, hasRun };
}

/** Whether it is more than an attempt that came to nothing. */
const isMore = ({ status }: { status: DeploymentStatus }): boolean => status !== "failed" && status !== "canceled";

/** Whether there is such a one that a project's detail does not show; also when that cannot be told. */
async function hasMore(api: Api, projectId: string): Promise<boolean> {
  const path = `/projects/${projectId}/deployments?limit=${limits.deploymentListMax}`;
  return api.get(path, deploymentListReply).then(
    ({ deployments, nextCursor }) => nextCursor !== null || deployments.some(isMore),
    (thrown: unknown) => {
      if (thrown instanceof CliError) return true;
      throw thrown;
    },
  );
}

const nameOf = ({ id, slug }: Link): string => slug ?? id;

/** The trouble as an error, with the command that ends it. */
export function troubleError(trouble: LinkTrouble): CliError {
  if (trouble.kind === "gone")
    return new CliError(
      "CLOUD_NOT_FOUND",
      `The project ${nameOf(trouble.link)}, to which this directory is linked, is gone, or not yours`,
      { hint: "Forget it with `svc unlink`; then `svc deploy` makes a new one, or name another with --project <slug>" },
    );
  const { project, wanted, hasRun } = trouble;
  const cure = hasRun
    ? "`svc unlink` lets the next deploy make another project, for which the manifest needs another slug, or none"
    : `\`svc projects delete ${project.slug} --yes\` lets the next deploy make it anew; nothing of it has run`;
  return new CliError(
    "MANIFEST_INVALID",
    `The project ${project.slug} is ${project.type}, and a type never changes; the manifest says ${wanted}`,
    { hint: `Mend the manifest, or begin anew: ${cure}` },
  );
}

/** Asks a person whether the trouble shall end, and ends it. True when this directory is linked to nothing any more. */
export async function offerCure(context: Context, api: Api, trouble: LinkTrouble): Promise<boolean> {
  const { terminal } = context;
  if (!terminal.interactive) return false;
  const { directory } = await context.manifestPlace();
  if (trouble.kind === "gone") {
    const question = `The project ${nameOf(trouble.link)}, to which this directory is linked, is gone, or not yours. Forget it?`;
    if ((await terminal.confirm(question, { initial: true })) !== true) return false;
    await deleteState(directory);
    return true;
  }
  const { project, wanted, hasRun } = trouble;
  // What visitors have seen is not deleted in passing.
  if (hasRun) return false;
  const question = `The project ${project.slug} was made as ${project.type}, and a type never changes. Nothing of it has run. Delete it with its variables, so that it can be made anew as ${wanted}?`;
  if ((await terminal.confirm(question, { initial: false })) !== true) return false;
  await api.delete(`/projects/${project.id}`, deleteProjectReply);
  await deleteState(directory);
  terminal.step(`Deleted ${project.slug}`, "done");
  return true;
}

/** That the platform does not know the project that `link` leads to; throws what else `thrown` is. */
export function goneTrouble(link: Link, thrown: unknown): LinkTrouble {
  if (thrown instanceof CliError && thrown.server?.status === 404) return { kind: "gone", link };
  throw thrown;
}

/** The error to tell instead of `error` when what was not found is the project that `link` led to. */
export async function explainNotFound(context: Context, link: Link | null, error: CliError): Promise<CliError> {
  if (link === null || error.server?.status !== 404) return error;
  const isGone = await (await context.api()).get(`/projects/${link.id}`, projectDetailReply).then(
    () => false,
    (thrown: unknown) => thrown instanceof CliError && thrown.server?.status === 404,
  );
  return isGone ? troubleError({ kind: "gone", link }) : error;
}
