import { type FileHandle, mkdir, open, readdir, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { isFileError } from "@svc/runtime/durable-file";
import { z } from "zod";
import { accessLogName } from "../names.ts";

/** Of Caddy, and of the module of `edge-module`, which has lines like Caddy's. */
const logFile = /^(?:access(?:-.+)?|visits-\d+)\.log$/;
const isOfModule = (name: string): boolean => name.startsWith("visits-");

/** How far each file was read. Files are told apart by inode and beginning, whatever they are called meanwhile. */
export const logPosition = z.array(z.object({ inode: z.string(), head: z.string(), offset: z.int().min(0) }));
export type LogPosition = z.infer<typeof logPosition>;

export interface LogReading {
  position: LogPosition;
  /** Paths of files that were read to their end and that Caddy will not write to again. */
  finished: string[];
}

/** Each begins with its first line's time, to a fraction of a microsecond; one of the module with a name of its own. */
const headBytes = 32;
/**
 * A file of the module is as long from the first as it will ever be, and lines are put into it as into memory. Behind its
 * beginning stands how many bytes of it are whole (64 bits, little endian): whatever lies beyond is not looked at.
 */
const moduleHeaderBytes = 64;
const chunkBytes = 256 * 1024;
/** More files than Caddy and its module keep. */
const positionsMax = 64;

/** Makes the directory for Caddy to write into. */
export const prepareAccessLog = async (dir: string): Promise<void> =>
  void (await mkdir(dir, { recursive: true, mode: 0o755 }));

/**
 * Reads what Caddy wrote since `from`, line by line, in the order of files and not strictly of time. A line that is
 * being written is left for the next time.
 *
 * @param enough asked between chunks of lines; once true, the rest is left for the next time
 */
export async function readAccessLog(
  dir: string,
  from: LogPosition,
  onLine: (line: string) => void,
  enough: () => boolean,
): Promise<LogReading> {
  const reading: LogReading = { position: [], finished: [] };
  const names = (await readdir(dir)).filter((name) => logFile.test(name)).sort();
  const newestOfModule = names.findLast(isOfModule);
  for (const name of names) {
    const isFull = name !== accessLogName && name !== newestOfModule;
    await readOne(join(dir, name), isFull, from, onLine, enough, reading);
  }
  // A file that was renamed after the listing is met under its new name next time.
  const unseen = from.filter((known) => !reading.position.some((each) => isSameFile(each, known)));
  return { ...reading, position: [...unseen, ...reading.position].slice(-positionsMax) };
}

/** What Caddy has written since `from`: bytes that nobody has read. */
export async function unreadBytes(dir: string, from: LogPosition): Promise<number> {
  let unread = 0;
  for (const name of (await readdir(dir)).filter((each) => logFile.test(each))) {
    const about = await stat(join(dir, name), { bigint: true }).catch(() => null);
    if (about === null) continue;
    const known = from.findLast(({ inode }) => inode === String(about.ino));
    const [start, end] = isOfModule(name) ? await extentOfModule(join(dir, name)) : [0, Number(about.size)];
    unread += Math.max(0, end - (known?.offset ?? start));
  }
  return unread;
}

/** Where the lines of a file of the module begin, and where they end. */
async function extentOfModule(path: string): Promise<[start: number, end: number]> {
  const file = await open(path, "r").catch((cause: unknown) => {
    if (isFileError(cause, "ENOENT")) return null;
    throw cause;
  });
  if (file === null) return [0, 0];
  try {
    return [moduleHeaderBytes, await wholeBytesOf(file)];
  } finally {
    await file.close();
  }
}

async function wholeBytesOf(file: FileHandle): Promise<number> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, headBytes);
  return bytesRead === 8 ? Number(buffer.readBigUInt64LE()) : 0;
}

type FileMark = Pick<LogPosition[number], "inode" | "head">;
const isSameFile = (a: FileMark, b: FileMark): boolean => a.inode === b.inode && a.head === b.head;

async function readOne(
  path: string,
  isFull: boolean,
  from: LogPosition,
  onLine: (line: string) => void,
  enough: () => boolean,
  reading: LogReading,
): Promise<void> {
  const file = await open(path, "r").catch((cause: unknown) => {
    if (isFileError(cause, "ENOENT")) return null;
    throw cause;
  });
  if (file === null) return;
  try {
    const inode = String((await file.stat({ bigint: true })).ino);
    const buffer = Buffer.allocUnsafe(chunkBytes);
    const begun = await file.read(buffer, 0, headBytes, 0);
    const head = buffer.subarray(0, begun.bytesRead).toString("latin1");
    if (head.length < headBytes) {
      if (isFull) reading.finished.push(path);
      return;
    }
    const known = from.find((each) => isSameFile(each, { inode, head }));
    const isModules = isOfModule(basename(path));
    // Looked at before the lines: those that are whole by now were written before it said so.
    const whole = isModules ? await wholeBytesOf(file) : Number.POSITIVE_INFINITY;
    let offset = known?.offset ?? (isModules ? moduleHeaderBytes : 0);
    let atEnd = false;
    while (!atEnd && !enough()) {
      const { bytesRead } = await file.read(buffer, 0, Math.max(0, Math.min(chunkBytes, whole - offset)), offset);
      const chunk = buffer.subarray(0, bytesRead);
      const end = chunk.lastIndexOf(0x0a) + 1;
      for (const line of chunk.toString("utf8", 0, end).split("\n")) if (line !== "") onLine(line);
      // A line as long as a chunk is none of Caddy's.
      offset += end > 0 ? end : bytesRead === chunkBytes ? bytesRead : 0;
      atEnd = bytesRead < chunkBytes;
    }
    reading.position.push({ inode, head, offset });
    if (isFull && atEnd) reading.finished.push(path);
  } finally {
    await file.close();
  }
}

/** Removes files that were read to their end; Caddy would only do so when there are many. */
export async function removeFinished(paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { force: true });
}
