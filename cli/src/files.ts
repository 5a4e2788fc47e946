import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CliError } from "./errors.ts";

/** 0600 for what holds a secret, 0644 for the rest. */
export type FileMode = 0o600 | 0o644;

/** Whether `thrown` is a file-system error with one of `codes` (ENOENT, EEXIST, …). */
export const isFileError = (thrown: unknown, ...codes: string[]): boolean =>
  thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" && codes.includes(thrown.code);

/**
 * Puts a file in place, whole or not at all, and makes its directory. A symbolic link in its place is
 * refused with `refusal`, and so is one in the place of the directory where `realDirectory` asks for it:
 * a checked-out repository must not choose where we write.
 */
export async function replaceFile(
  path: string,
  content: string,
  options: { mode: FileMode; refusal: "CONFIG_INVALID" | "CLI_INVALID_USAGE"; realDirectory?: boolean },
): Promise<void> {
  const directory = dirname(path);
  for (const place of options.realDirectory === true ? [path, directory] : [path])
    if (await isSymlink(place))
      throw new CliError(options.refusal, `${place} is a symbolic link; nothing was written`, {
        hint: `Remove it (\`rm ${place}\`), then run the command again`,
      });
  await mkdir(directory, { recursive: true, mode: options.mode === 0o600 ? 0o700 : 0o755 });
  const temporary = join(directory, `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    await createFile(temporary, content, options.mode);
    await rename(temporary, path);
  } catch (thrown) {
    await rm(temporary, { force: true });
    throw thrown;
  }
}

/** Creates a file that is not there yet; EEXIST when there is anything in its place, also a dangling link. */
export async function createFile(path: string, content: string, mode: FileMode): Promise<void> {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
  const file = await open(path, O_CREAT | O_EXCL | O_WRONLY | (O_NOFOLLOW ?? 0), mode);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The text of a file of at most `maxBytes`; null when there is none. */
export async function readTextFile(path: string, maxBytes: number): Promise<string | null> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, "r");
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return null;
    throw thrown;
  }
  try {
    const { size } = await file.stat();
    if (size > maxBytes)
      throw new CliError("CLI_INVALID_USAGE", `${path} is larger than ${maxBytes} bytes`, {
        hint: "No file of its kind is; look at what is in it",
      });
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

async function isSymlink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return false;
    throw thrown;
  }
}
