import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import { withDotenvVariable } from "@svc/proto";
import { CommandError, run } from "@svc/runtime/command";
import { isFileError } from "@svc/runtime/durable-file";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { replaceFile } from "../files.ts";

export const envFile = ".env.local";
const fileBytesMax = 4 * 1024 * 1024;
const gitMs = 5000;

/**
 * Puts a variable into `.env.local` of `directory`, whole or not at all, and for its owner's eyes only. Whatever else is in
 * the file stays as it is. False when it was there already.
 */
export async function putVariable(directory: string, name: string, value: string): Promise<boolean> {
  const path = join(directory, envFile);
  const { text, isPrivate } = await readPresent(path);
  const made = withDotenvVariable(text, name, value);
  if (made === null)
    throw new CliError("UNEXPECTED", `A dotenv file cannot hold the value of ${name}`, {
      hint: "It mixes quotes and backslashes; run the app with `svc run` instead",
    });
  if (made === text && isPrivate) return false;
  await replaceFile(path, made, { mode: 0o600, refusal: "CLI_INVALID_USAGE" });
  return true;
}

async function readPresent(path: string): Promise<{ text: string; isPrivate: boolean }> {
  try {
    const found = await lstat(path);
    if (found.isSymbolicLink()) return { text: "", isPrivate: false };
    if (!found.isFile() || found.size > fileBytesMax)
      throw new CliError("CLI_INVALID_USAGE", `${path} is no dotenv file; nothing was written`, {
        hint: `See what it is, and move it away: \`ls -l ${path}\``,
      });
    const bytes = await readFile(path);
    return { text: asText(bytes, path), isPrivate: (found.mode & 0o077) === 0 };
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT")) return { text: "", isPrivate: true };
    if (isFileError(thrown, "EACCES", "EPERM"))
      throw new CliError("CLI_INVALID_USAGE", `${path} cannot be read`, { hint: `Make it yours: \`ls -l ${path}\`` });
    throw thrown;
  }
}

/** What cannot be read as it is could not be written back as it was. */
function asText(bytes: Buffer, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CliError("CLI_INVALID_USAGE", `${path} is not text in UTF-8; nothing was written`, {
      hint: "Save it as UTF-8, then run the command again",
    });
  }
}

/** Warns when Git would take `.env.local` of `directory` along, with what to do about it. */
export async function warnOfCommit(context: Context, directory: string): Promise<void> {
  if (await gitAgrees(context, directory, ["ls-files", "--error-unmatch", "--", envFile]))
    context.warn(
      `Git has ${envFile}, which holds a password: take it out with \`git rm --cached ${envFile}\`, and add the line ${envFile} to .gitignore`,
    );
  else if (
    await gitAgrees(context, directory, [
      "ls-files",
      "--others",
      "--exclude-standard",
      "--error-unmatch",
      "--",
      envFile,
    ])
  )
    context.warn(`${envFile} holds a password, and Git would commit it: add the line ${envFile} to .gitignore`);
}

/** Whether Git is there, and says yes. */
async function gitAgrees({ signal }: Context, directory: string, args: readonly string[]): Promise<boolean> {
  try {
    await run(["git", "-C", directory, ...args], { timeoutMs: gitMs, signal });
    return true;
  } catch (thrown) {
    if (thrown instanceof CommandError) return false;
    throw thrown;
  }
}
