import { EngineError, isEngineTrouble } from "../engine/errors.ts";
import { TaskFailure } from "../placements/failure.ts";
import type { Job } from "./builder.ts";

/** Base images are kept by the same rule as a project's own; this stands for all projects together. */
const OWNER = "base-image";

/**
 * Makes sure that the engine has an image before a build starts from it: so that one that is not there has a
 * message of its own, and one that brings instructions along is not built upon.
 */
export async function ensureBaseImage(
  { engine, journal, output, signal }: Pick<Job, "engine" | "journal" | "output" | "signal">,
  reference: string,
): Promise<void> {
  const image = (await engine.findImage(reference)) ?? (await fetch());
  if (image?.hasTriggers === true) {
    throw new TaskFailure(
      "BUILD_FAILED",
      `The base image "${reference}" has ONBUILD instructions, which are not run here. Start from an image without them.`,
    );
  }
  if (journal.hasImage(reference, OWNER)) journal.noteImage(reference, OWNER, Date.now());

  async function fetch() {
    output.write(`Fetching the base image ${reference}\n`);
    try {
      await engine.pullImage(withTag(reference), null, () => {}, signal);
    } catch (cause) {
      signal.throwIfAborted();
      if (isEngineTrouble(cause)) throw cause;
      throw new TaskFailure(
        "BUILD_FAILED",
        `The base image "${reference}" could not be fetched: ${reasonOf(cause)}. Check its name and tag; it has to be in a public registry.`,
        { cause },
      );
    }
    // Only what was fetched here may be removed again.
    journal.noteImage(reference, OWNER, Date.now());
    return await engine.findImage(reference);
  }
}

/** Without a tag the engine would fetch every one there is. */
function withTag(reference: string): string {
  const name = reference.slice(reference.lastIndexOf("/") + 1);
  return /[:@]/.test(name) ? reference : `${reference}:latest`;
}

function reasonOf(cause: unknown): string {
  const text = cause instanceof EngineError ? cause.message.replace(/^pull image: /, "") : "the engine refused";
  if (/not found|manifest unknown|does not exist/i.test(text)) return "the registry does not know it";
  if (/no such host|timeout|refused|unreachable/i.test(text)) return "the registry could not be reached";
  return text.slice(0, 300);
}
