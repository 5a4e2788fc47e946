import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

export interface FileMode {
  /** 0o600 for what holds a secret: then its directory, when it is made, is its owner's only, too. */
  mode?: 0o600 | 0o640 | 0o644;
  /** Whose it is from the moment it is there; needs root. Its writer's when absent. */
  owner?: { uid: number; gid: number };
}

/**
 * Replaces `path` as a whole, and makes its directory. After a crash either the old or the new content is there: the bytes
 * are on disk before the rename, and the rename before the return.
 */
export async function writeDurably(
  path: string,
  content: string | Uint8Array,
  { mode = 0o600, owner }: FileMode = {},
): Promise<void> {
  const dir = dirname(path);
  await mkdir(dir, { recursive: true, mode: mode === 0o600 ? 0o700 : 0o755 });
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await createDurably(temporary, content, { mode, ...(owner !== undefined && { owner }) });
    await rename(temporary, path);
  } catch (cause) {
    await rm(temporary, { force: true });
    throw cause;
  }
  await syncDirectory(dir);
}

/** One file by these: whoever keeps something there may be given another place for it. */
export const durableFile = (path: string) => ({
  read: () => readIfThere(path),
  replace: (text: string) => writeDurably(path, text),
});

/** Writes a file that is not there yet, to the disk; EEXIST when anything is in its place, also a dangling link. */
export async function createDurably(
  path: string,
  content: string | Uint8Array,
  { mode = 0o600, owner }: FileMode = {},
): Promise<void> {
  const file = await open(path, "wx", mode);
  try {
    if (owner !== undefined) await file.chown(owner.uid, owner.gid);
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Names that were added, removed or changed in the directory are on disk afterwards. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows opens no directory, and keeps names by itself.
  if (process.platform === "win32") return;
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** The text of a file, or null when there is none. */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    if (isFileError(cause, "ENOENT")) return null;
    throw cause;
  }
}

/** Whether `thrown` is an error of the file system with one of these codes (ENOENT, EEXIST, …). */
export const isFileError = (thrown: unknown, ...codes: string[]): boolean =>
  thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" && codes.includes(thrown.code);
