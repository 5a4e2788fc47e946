import { open } from "node:fs/promises";
import { createDurably, isFileError } from "@svc/runtime/durable-file";
import { CliError } from "./errors.ts";

/** Takes the place of a new file that only its owner can read, before there is a secret for it. Throws CLI_INVALID_USAGE. */
export async function reserveFile(path: string): Promise<void> {
  try {
    await createDurably(path, "", { mode: 0o600 });
  } catch (thrown) {
    if (!isFileError(thrown, "EEXIST", "ENOENT", "ENOTDIR", "EACCES", "EISDIR")) throw unwritten(path, thrown);
    const why = isFileError(thrown, "EEXIST") ? "exists already" : "cannot be written";
    throw new CliError("CLI_INVALID_USAGE", `${path} ${why}`, { hint: "Name a new file with --file <new-path>" });
  }
}

/** Puts the secret into a file that was reserved. Rejects with what the system says. */
export async function fillFile(path: string, secret: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.writeFile(`${secret}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What is wrong with a place that looked good, in a sentence that names it. */
export const unwritten = (path: string, thrown: unknown, more = ""): CliError =>
  new CliError("UNEXPECTED", `${path} cannot be written: ${thrown instanceof Error ? thrown.message : thrown}${more}`, {
    cause: thrown,
    hint: "Make room, or name another place with --file <new-path>, then run the command again",
  });
