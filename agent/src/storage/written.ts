import type { Stats } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

/**
 * What a file counts as: the blocks that it takes, or its length where that is more. A file with holes takes next to
 * nothing until something copies or packs it, and then all of its length.
 */
export type Counting = "blocks" | "length";

/** Every entry counts as this much at least: a disk has so many inodes and no more, and an empty file takes one too. */
export const entryMinBytes = 4096;
/** Deeper than any tree that is not made to hide something. Below, its paths are longer than the kernel takes. */
const depthMax = 200;
/** So many entries are looked at together: enough for a disk that is slow to answer, and few enough for everybody else. */
const atOnce = 16;
const blockBytes = 512;

/**
 * Adds up what lies below a directory, which others may be writing to. Stops once it is more than `enough`, so that
 * nobody is asked for more than the answer needs: with the least that an entry counts as, that bounds the walk too. What
 * is too deep to be reached counts as more than any bound. Null when the directory is not there.
 */
export async function bytesBelow(directory: string, enough: number, counting: Counting): Promise<number | null> {
  /** Files with several names in the tree, counted once. */
  const linked = new Set<string>();
  const open = [{ path: directory, depth: 0 }];
  let sum = 0;
  while (open.length > 0 && sum <= enough) {
    const next = open.pop();
    if (next === undefined) break;
    const { path, depth } = next;
    try {
      for await (const names of batches(path)) {
        const found = await Promise.all(names.map((name) => look(join(path, name))));
        for (const [index, stats] of found.entries()) {
          if (stats === null) continue;
          if (stats.isDirectory()) open.push({ path: join(path, names[index] ?? ""), depth: depth + 1 });
          else if (stats.nlink > 1) {
            const file = `${stats.dev}:${stats.ino}`;
            if (linked.has(file)) continue;
            linked.add(file);
          }
          sum += bytesOf(stats, counting);
        }
        if (sum > enough) break;
      }
    } catch (cause) {
      if (isTooLong(cause)) return Number.POSITIVE_INFINITY;
      if (!isGone(cause)) throw cause;
      if (depth === 0) return null;
    }
    if (depth > depthMax) return Number.POSITIVE_INFINITY;
  }
  return sum;
}

export function bytesOf(stats: Pick<Stats, "blocks" | "size" | "isFile">, counting: Counting): number {
  const blocks = stats.blocks * blockBytes;
  const length = counting === "length" && stats.isFile() ? stats.size : 0;
  return Math.max(blocks, length, entryMinBytes);
}

/** Names in a directory, a few at a time: there may be millions. */
async function* batches(path: string): AsyncGenerator<string[]> {
  let names: string[] = [];
  for await (const { name } of await opendir(path, { bufferSize: atOnce })) {
    names.push(name);
    if (names.length < atOnce) continue;
    yield names;
    names = [];
  }
  if (names.length > 0) yield names;
}

/** Null when it went meanwhile. */
async function look(path: string): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch (cause) {
    if (isGone(cause)) return null;
    throw cause;
  }
}

const codeOf = (cause: unknown): string => (cause instanceof Error && "code" in cause ? String(cause.code) : "");
/** Replaced by something else counts as gone: whoever writes there may do what he likes meanwhile. */
const isGone = (cause: unknown): boolean => ["ENOENT", "ENOTDIR", "ELOOP"].includes(codeOf(cause));
const isTooLong = (cause: unknown): boolean => codeOf(cause) === "ENAMETOOLONG";
