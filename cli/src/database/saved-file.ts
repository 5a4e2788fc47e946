import { randomBytes } from "node:crypto";
import { lstat, open, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isFileError } from "@svc/runtime/durable-file";
import { CliError } from "../errors.ts";

const usualFlag = "--output <path>";

/** What somebody names as the place of a file: the file, or a directory that is there, in which it is called `name`. */
export async function placeOf(output: string, name: string, placeFlag = usualFlag): Promise<string> {
  const path = (await isDirectory(output)) ? join(output, name) : output;
  if (!(await isDirectory(dirname(path))))
    throw new CliError("CLI_INVALID_USAGE", `There is no directory ${dirname(path)}`, {
      hint: `Make it with \`mkdir -p ${dirname(path)}\``,
    });
  const there = await lstat(path).catch((thrown: unknown) => {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return null;
    throw thrown;
  });
  if (there === null || there.isFile()) return path;
  throw new CliError("CLI_INVALID_USAGE", `${path} is there and no file; nothing was written`, {
    hint: `Name another one with ${placeFlag}`,
  });
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return false;
    throw thrown;
  }
}

/**
 * Puts a file in place, whole or not at all, readable by its owner only. `what` it is begins a sentence. `check` is told how many
 * bytes came, and throws where they are not all. Returns how many there are.
 */
export async function saveWhole(
  path: string,
  chunks: AsyncIterable<Buffer>,
  {
    what,
    check = () => {},
    placeFlag = usualFlag,
  }: { what: string; check?(sizeBytes: number): void; placeFlag?: string },
): Promise<number> {
  const refuse = cannotWrite(what, placeFlag);
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    const sizeBytes = await writeAll(temporary, chunks, refuse);
    check(sizeBytes);
    await rename(temporary, path).catch(refuse);
    return sizeBytes;
  } catch (thrown) {
    await rm(temporary, { force: true });
    throw thrown;
  }
}

async function writeAll(
  path: string,
  chunks: AsyncIterable<Buffer>,
  refuse: (cause: unknown) => never,
): Promise<number> {
  await using file = await open(path, "wx", 0o600).catch(refuse);
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    await file.appendFile(chunk).catch(refuse);
    sizeBytes += chunk.length;
  }
  await file.sync().catch(refuse);
  return sizeBytes;
}

/** A full disk is no trouble of the network. */
const cannotWrite =
  (what: string, placeFlag: string) =>
  (cause: unknown): never => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CliError("CLI_INVALID_USAGE", `${what} cannot be written: ${why}`, {
      cause,
      hint: `Name another place with ${placeFlag}`,
    });
  };
