import { isUtf8 } from "node:buffer";
import { lstat, open } from "node:fs/promises";
import { dirname } from "node:path";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";
import { CliError, type CliErrorCode } from "./errors.ts";

/**
 * Puts a file in place, whole or not at all, and makes its directory. A symbolic link in its place is
 * refused with `refusal`, and so is one in the place of the directory where `realDirectory` asks for it:
 * a checked-out repository must not choose where we write.
 */
export async function replaceFile(
  path: string,
  content: string,
  options: { mode: 0o600 | 0o644; refusal: "CONFIG_INVALID" | "CLI_INVALID_USAGE"; realDirectory?: boolean },
): Promise<void> {
  const directory = dirname(path);
  for (const place of options.realDirectory === true ? [path, directory] : [path])
    if (await isSymlink(place))
      throw new CliError(options.refusal, `${place} is a symbolic link; nothing was written`, {
        hint: `Remove it (\`rm ${place}\`), then run the command again`,
      });
  try {
    await writeDurably(path, content, { mode: options.mode });
  } catch (thrown) {
    if (!isFileError(thrown, ...inTheWay)) throw thrown;
    throw new CliError(options.refusal, `${path} cannot be written`, {
      cause: thrown,
      hint: `See what is there, and whether you may change it: \`ls -ld ${path} ${directory}\``,
    });
  }
}

/** What a person sees to: something else has the place, or they may not have it. */
const inTheWay = ["EISDIR", "ENOTDIR", "EEXIST", "EACCES", "EPERM", "EROFS", "ELOOP", "ENAMETOOLONG"] as const;

/** Tells of a file that is there and cannot be read, or is no file, or too large, as `code`. */
export const unreadableAs =
  (code: CliErrorCode, path: string) =>
  (thrown: unknown): never => {
    if (thrown instanceof CliError) throw new CliError(code, thrown.message, { hint: thrown.hint });
    if (!isFileError(thrown, ...inTheWay)) throw thrown;
    throw new CliError(code, `${path} cannot be read`, {
      cause: thrown,
      hint: `See what is there, and whether you may read it: \`ls -ld ${path}\``,
    });
  };

/**
 * The text of a file of at most `maxBytes`; null when there is none. UTF-16, as some editors write it, is refused:
 * nobody would find in it what is meant.
 *
 * @param options.strict each byte counts: whatever is not UTF-8 is refused as well
 * @param options.tooLarge what to say of one that is larger
 */
export async function readTextFile(
  path: string,
  maxBytes: number,
  options: { strict?: boolean; tooLarge?: CliError } = {},
): Promise<string | null> {
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
      throw (
        options.tooLarge ??
        new CliError("CLI_INVALID_USAGE", `${path} is larger than ${maxBytes} bytes`, {
          hint: "No file of its kind is; look at what is in it",
        })
      );
    const bytes = await file.readFile();
    if (bytes.includes(0) || (options.strict === true && !isUtf8(bytes)))
      throw new CliError("CLI_INVALID_USAGE", `${path} is not text in UTF-8`, {
        hint: "Save it as UTF-8, then run the command again",
      });
    return bytes.toString("utf8");
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
