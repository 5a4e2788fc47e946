import { type ProjectDetailReply, projectDetailReply, projectListReply } from "@svc/proto";
import type { Api } from "./api.ts";
import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";
import { isId } from "./ids.ts";
import { explicitSlug, findManifest } from "./manifest-file.ts";
import { readState } from "./state.ts";

/** A project as a command was pointed to it. `slug` is null while only the id is known. */
export interface Target {
  id: string;
  slug: string | null;
}

/** What names a project: an id to use as it is, or a slug to look up. */
export type Reference = { id: string; slug: string | null } | { slug: string };

/** Reads `--project`: a UUID is an id, anything else a slug. */
const parseReference = (text: string): Reference =>
  isId(text) ? { id: text.toLowerCase(), slug: null } : { slug: text };

/** Whether `--project` with `text` names this project. */
export const isMeant = (text: string, { id, slug }: { id: string; slug: string }): boolean =>
  text === slug || text.toLowerCase() === id;

/**
 * Which project is meant: `--project`, else `.svc/state.json`, else the manifest's explicit slug.
 * Null when none of them says. Reads no network.
 */
export async function findReference(context: Context, flag: string | undefined): Promise<Reference | null> {
  if (flag !== undefined) return parseReference(flag);
  const place = await context.manifestPlace();
  const linked = await readState(place.directory);
  if (linked !== null) {
    context.follow(linked);
    return linked;
  }
  const manifest = await findManifest(place);
  const slug = manifest === null ? null : explicitSlug(manifest);
  return slug === null ? null : { slug };
}

/** The project of that slug among those the caller may see, or null. */
export async function findProjectBySlug(api: Api, slug: string) {
  const { projects } = await api.get("/projects", projectListReply).catch((thrown: unknown) => {
    if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_FORBIDDEN_SCOPE") throw thrown;
    // A key that may only deploy knows its project by nothing but the id.
    const { code, message, server } = thrown;
    throw new CliError(code, message, {
      hint: "Name the project by its id: --project <id>",
      ...(server && { server }),
    });
  });
  return projects.find((project) => project.slug === slug) ?? null;
}

/** Id of the project that is meant. CLOUD_NOT_FOUND when nothing says which, or there is none of that slug. */
export async function resolveTarget(context: Context, flag: string | undefined): Promise<Target> {
  const reference = await findReference(context, flag);
  if (reference === null)
    throw new CliError("CLOUD_NOT_FOUND", "This directory is not linked to a project", {
      hint: "Name one with --project <slug>, or create it with `svc deploy`",
    });
  if ("id" in reference) return reference;
  const project = await findProjectBySlug(await context.api(), reference.slug);
  if (project !== null) return { id: project.id, slug: project.slug };
  throw new CliError("CLOUD_NOT_FOUND", `You have no project with the slug "${reference.slug}"`, {
    hint: "See your projects with `svc projects list`",
  });
}

/** The project that is meant, and its newest deployments. */
export async function getProject(context: Context, flag: string | undefined): Promise<ProjectDetailReply> {
  const { id } = await resolveTarget(context, flag);
  const api = await context.api();
  return api.get(`/projects/${id}`, projectDetailReply);
}

/** What envelopes say about a project. */
export const projectFacts = ({ id, slug, type, name }: ProjectDetailReply["project"]) => ({ id, slug, type, name });

/** The same as far as a target is known without asking for the project. */
export const targetFacts = ({ id, slug }: Target) => ({ id, ...(slug === null ? {} : { slug }) });
