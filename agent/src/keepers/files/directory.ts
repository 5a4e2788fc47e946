import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir } from "node:fs/promises";
import { type CopyFile, type CopyListing, copyFile, copyStatusBytesMax } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_CREAT } = constants;

/**
 * Files of a copy in the directory of its volume. A keeper may put there what it likes, so no link is followed on the way, and
 * what is no file is not there. Each call goes by what it has opened, never by a name that may stand for something else by now.
 */

/** What a directory below the volume has been opened as. */
const inside = (directory: FileHandle, name: string): string => `/proc/self/fd/${directory.fd}/${name}`;

const openDirectory = (path: string): Promise<FileHandle> => open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

/** Runs `act` with the directory that has the last name of `path`, which is below `root`. */
async function below<T>(
  root: string,
  path: string,
  { make = false }: { make?: boolean },
  act: (directory: FileHandle, name: string) => Promise<T>,
): Promise<T> {
  await using stack = new AsyncDisposableStack();
  const names = path.split("/");
  const last = names.pop() ?? "";
  let directory = stack.use(await openDirectory(root));
  for (const name of names) {
    const parent = directory;
    if (make) await mkdir(inside(parent, name)).catch(unless("EEXIST"));
    directory = stack.use(await openDirectory(inside(parent, name)));
    if (!make) continue;
    await directory.chmod(0o755);
    await parent.sync();
  }
  return await act(directory, last);
}

const unless =
  (...codes: string[]) =>
  (cause: unknown): void => {
    if (!isFileError(cause, ...codes)) throw cause;
  };

/** The bytes of a part; null when the file is no more, no file, or not so long. */
export async function readPart(
  root: string,
  { path, at, length }: { path: string; at: number; length: number },
): Promise<Buffer | null> {
  try {
    return await below(root, path, {}, async (directory, name) => {
      await using file = await open(inside(directory, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      if (!(await file.stat()).isFile()) return null;
      const content = Buffer.alloc(length);
      let filled = 0;
      while (filled < length) {
        const { bytesRead } = await file.read(content, filled, length - filled, at + filled);
        if (bytesRead === 0) return null;
        filled += bytesRead;
      }
      return content;
    });
  } catch (cause) {
    if (isFileError(cause, "ENOENT", "ELOOP", "ENOTDIR", "ENXIO")) return null;
    throw cause;
  }
}

/** Writes a part, and has it on the disk before it returns. Servers that restore read it as somebody else. */
export const writePart = (root: string, { path, at }: { path: string; at: number }, content: Buffer): Promise<void> =>
  below(root, path, { make: true }, async (directory, name) => {
    await using file = await open(inside(directory, name), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    if (!(await file.stat()).isFile()) throw new Error(`${path} is no file`);
    await file.chmod(0o644);
    let written = 0;
    while (written < content.length) {
      const { bytesWritten } = await file.write(content, written, content.length - written, at + written);
      written += bytesWritten;
    }
    await file.datasync();
    await directory.sync();
  });

/** What a copy's status says; empty when it says nothing. */
async function readStatus(root: string): Promise<string> {
  const size = (await filesIn(root, ".")).find(({ path }) => path === "status")?.size ?? 0;
  if (size > copyStatusBytesMax) return "";
  // Another one may have taken its place meanwhile, of another length.
  return (await readPart(root, { path: "status", at: 0, length: size }))?.toString("utf8") ?? "";
}

/**
 * Every file of the copy. Bases come before the logs, so that there is all the log that goes with them, and none is named that
 * went while the logs were looked through: then that was removed as well.
 */
export async function listCopy(root: string): Promise<CopyListing> {
  const status = await readStatus(root);
  const top = await filesIn(root, ".");
  const bases = new Map<string, CopyFile[]>();
  for (const base of await directoriesIn(root, "bases")) bases.set(base, await filesIn(root, base));
  const logs: CopyFile[] = [];
  for (const log of await directoriesIn(root, "logs")) for (const file of await filesIn(root, log)) logs.push(file);
  const left = new Set(await directoriesIn(root, "bases"));
  const ofBases = [...bases].flatMap(([base, files]) => (left.has(base) ? files : []));
  return { status, files: [...top.filter(({ path }) => path !== "status"), ...ofBases, ...logs] };
}

const numbered = /^[0-9]{6}$/;

/** What `look` finds in a directory below `root`, by its names in their order; nothing where there is no such directory. */
async function lookInto<T>(
  root: string,
  path: string,
  look: (directory: FileHandle, names: string[]) => Promise<T[]>,
): Promise<T[]> {
  try {
    return await below(root, `${path}/x`, {}, async (directory) =>
      look(directory, (await readdir(inside(directory, "."))).toSorted()),
    );
  } catch (cause) {
    if (isFileError(cause, "ENOENT", "ELOOP", "ENOTDIR")) return [];
    throw cause;
  }
}

const directoriesIn = (root: string, path: string): Promise<string[]> =>
  lookInto(root, path, async (_, names) =>
    names.filter((name) => numbered.test(name)).map((name) => `${path}/${name}`),
  );

const filesIn = (root: string, path: string): Promise<CopyFile[]> =>
  lookInto(root, path, async (directory, names) => {
    const files: CopyFile[] = [];
    for (const name of names) {
      const found = await lstat(inside(directory, name), { bigint: true }).catch(unless("ENOENT"));
      if (found?.isFile() !== true) continue;
      const { size, ino, mtimeNs } = found;
      const told = path === "." ? name : `${path}/${name}`;
      // What keepers have half made has other names.
      const file = copyFile.safeParse({ path: told, size: Number(size), ino: String(ino), mtimeNs: String(mtimeNs) });
      if (file.success) files.push(file.data);
    }
    return files;
  });
