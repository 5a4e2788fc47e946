import { isOciManifest, type Manifest } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { replaceFile } from "../files.ts";
import { type ManifestPlace, readManifestText } from "../manifest-file.ts";
import { saysSlug, slugLine, withSlugLine } from "../slug-line.ts";

/**
 * Says how other checkouts find the project that was just made, where nobody can be asked and nothing is written: in a
 * pipeline, which begins with a new checkout each time, there would be one more project per run.
 */
export async function warnOfLostProject(
  context: Context,
  place: ManifestPlace,
  manifest: Manifest,
  slug: string,
): Promise<void> {
  if (await lacksSlug(place))
    context.warn(`Another checkout would make another project than ${slug}: ${wayBack(place, manifest, slug)}`);
}

/** Nobody may look at the terminal by now. */
const answerMs = 60_000;

/** Asks whether the manifest may name the project that was first deployed from here, and writes the line. */
export async function offerSlugLine(
  context: Context,
  place: ManifestPlace,
  manifest: Manifest,
  slug: string,
): Promise<void> {
  const { terminal, globals } = context;
  if (!terminal.interactive || !(await lacksSlug(place))) return;
  const line = slugLine(slug);
  const question = `Write \`${line}\` into ${place.path}, so that other checkouts deploy to this project, too?`;
  const another = `Another checkout would make another project: ${wayBack(place, manifest, slug)}`;
  context.onInterrupt(`${place.path} is as it was. ${another}`);
  // Where the result goes into a pipe, whoever reads it waits for this to end.
  const isAsked = context.columns !== null;
  const isWanted =
    !isOciManifest(manifest) &&
    (globals.yes || (isAsked && (await terminal.confirm(question, { initial: true, withinMs: answerMs })) === true));
  if (isWanted && (await writeSlugLine(place, slug))) terminal.step(`Wrote \`${line}\` into ${place.path}`, "done");
  else terminal.step(another);
}

/** How a checkout without a link comes to this project. The manifest of an image has no slug. */
const wayBack = ({ path }: ManifestPlace, manifest: Manifest, slug: string): string =>
  isOciManifest(manifest)
    ? `deploy to this one with \`svc deploy --project ${slug}\``
    : `to deploy to this one, add the line \`${slugLine(slug)}\` to ${path}`;

/** Whether the manifest could name a project and does not; as it is now: a deploy takes long enough to edit it. */
async function lacksSlug({ file }: ManifestPlace): Promise<boolean> {
  const text = await readManifestText(file);
  return text !== null && !saysSlug(text);
}

/** False where it has to be left to the person. */
async function writeSlugLine({ file }: ManifestPlace, slug: string): Promise<boolean> {
  const text = await readManifestText(file);
  const edited = text === null ? null : withSlugLine(text, slug);
  if (edited === null) return false;
  try {
    await replaceFile(file, edited, { mode: 0o644, refusal: "CLI_INVALID_USAGE" });
    return true;
  } catch (thrown) {
    // What was deployed is deployed; the line is only told then.
    if (thrown instanceof CliError || isFileError(thrown, "EACCES", "EPERM", "EROFS", "ENOSPC")) return false;
    throw thrown;
  }
}
