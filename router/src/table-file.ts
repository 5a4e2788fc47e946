import { type FileHandle, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";

/** The file that the table is kept in. One writer, which waits for each call before the next. */
export interface TableFile extends AsyncDisposable {
  /** What is in it; null when there is none. */
  read(): Promise<string | null>;
  /** Puts it aside, for whoever wants to know what is wrong with it. */
  putAside(): Promise<void>;
  /** Replaces it as a whole; on disk when it returns. */
  replace(text: string): Promise<void>;
  /** Adds to its end, once it was replaced; on disk after the next `sync`, in part or not at all before. */
  append(text: string): Promise<void>;
  sync(): Promise<void>;
}

/** The file in `dir`, which is made. What an earlier process was writing when it ended is removed. */
export async function openTableFile(dir: string): Promise<TableFile> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const name of await readdir(dir)) if (name.endsWith(".tmp")) await rm(join(dir, name), { force: true });
  const path = join(dir, "table.jsonl");
  let file: FileHandle | null = null;

  async function close(): Promise<void> {
    const open = file;
    file = null;
    await open?.close();
  }
  const opened = (): FileHandle => {
    if (file === null) throw new Error(`${path} is not open`);
    return file;
  };

  return {
    async read() {
      try {
        return await readFile(path, "utf8");
      } catch (cause) {
        if (isFileError(cause, "ENOENT")) return null;
        throw cause;
      }
    },
    putAside: () => rename(path, `${path}.damaged`),
    async replace(text) {
      await close();
      await writeDurably(path, text);
      file = await open(path, "a");
    },
    append: (text) => opened().appendFile(text),
    sync: () => opened().datasync(),
    [Symbol.asyncDispose]: close,
  };
}
