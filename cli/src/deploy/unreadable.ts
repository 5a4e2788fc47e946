import { isFileError } from "@svc/runtime/durable-file";
import { CliError } from "../errors.ts";

/** For what an archive must not or cannot hold. */
export const refuse = (message: string): CliError =>
  new CliError("DEPLOY_TRIGGER_FAILED", message, {
    hint: "Leave it out with a line in .gitignore, or in .svcignore if you have one; see what is packed with `svc deploy --dry-run`",
  });

export const changedWhilePacking = (path: string): CliError =>
  new CliError("DEPLOY_TRIGGER_FAILED", `${path} changed while it was packed`, {
    hint: "Run `svc deploy` again once nothing writes to it, or leave it out with a line in .gitignore, or in .svcignore if you have one",
  });

/** What was thrown over `path`, as an error that a person can act on where the file system is to blame. */
export function readFailure(path: string, thrown: unknown): unknown {
  if (isFileError(thrown, "EACCES", "EPERM", "EIO")) return refuse(`${path} cannot be read`);
  if (isFileError(thrown, "ENAMETOOLONG")) return refuse(`${path} has a name that is too long`);
  // Bytes that are no text came as this character, by which nothing is found.
  if (isFileError(thrown, "ENOENT") && path.includes("\ufffd")) return refuse(`${path} has a name that is not UTF-8`);
  // It was there, and a file, a moment ago.
  if (isFileError(thrown, "ENOENT", "ENOTDIR", "EISDIR", "ELOOP", "ENXIO")) return changedWhilePacking(path);
  return thrown;
}
