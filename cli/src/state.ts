import { rm } from "node:fs/promises";
import { join } from "node:path";
import { isFileError } from "@svc/runtime/durable-file";
import { z } from "zod";
import { CliError } from "./errors.ts";
import { readTextFile, replaceFile, unreadableAs } from "./files.ts";
import { parseJson } from "./json.ts";

/**
 * What links a directory to its project. It may come with a repository that somebody else wrote, so it
 * never says where the API is: whatever else it holds is ignored.
 */
export interface LinkedProject {
  id: string;
  slug: string;
}

const schema = z.looseObject({ project: z.looseObject({ id: z.guid(), slug: z.string() }) });
const stateBytesMax = 64 * 1024;

/** `.svc/state.json` of the directory that holds the manifest. */
export const statePath = (directory: string): string => join(directory, ".svc", "state.json");

/** The project that `directory` is linked to, or null. CONFIG_INVALID when the file is damaged. */
export async function readState(directory: string): Promise<LinkedProject | null> {
  const path = statePath(directory);
  const text = await readTextFile(path, stateBytesMax).catch(unreadableAs("CONFIG_INVALID", path));
  if (text === null) return null;
  const result = schema.safeParse(parseJson(text));
  if (!result.success)
    throw new CliError("CONFIG_INVALID", `${path} is damaged`, {
      hint: "Forget it with `svc unlink`, then name the project with --project <slug>",
    });
  const { id, slug } = result.data.project;
  return { id, slug };
}

/** Links `directory` to a project. */
export const writeState = (directory: string, project: LinkedProject & { name: string; type: string }): Promise<void> =>
  replaceFile(statePath(directory), `${JSON.stringify({ project }, null, 2)}\n`, {
    mode: 0o644,
    refusal: "CONFIG_INVALID",
    realDirectory: true,
  });

/** Unlinks `directory`. False when there was no link. */
export async function deleteState(directory: string): Promise<boolean> {
  try {
    await rm(statePath(directory));
    return true;
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return false;
    throw thrown;
  }
}
