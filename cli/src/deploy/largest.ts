import type { Entry } from "./tree.ts";

/** Something that is packed and how much of the whole it is, before compression. A directory's path ends in "/". */
export interface Share {
  path: string;
  bytes: number;
}

interface Directory {
  bytes: number;
  below: Map<string, Directory>;
}

// A directory that is nearly all one thing below it is better named by that.
const dominance = 0.8;

const bySize = (left: Share, right: Share) => right.bytes - left.bytes || (left.path < right.path ? -1 : 1);
const sizeOf = (entry: Entry): number => (entry.kind === "file" ? entry.sizeBytes : 0);

/** The `count` largest files, largest first. */
export const largestFiles = (entries: readonly Entry[], count: number): Share[] =>
  entries
    .map((entry) => ({ path: entry.path, bytes: sizeOf(entry) }))
    .sort(bySize)
    .slice(0, count);

/**
 * Where the bytes are: the `count` largest of the directories and files at the top, each followed down for as long as
 * nearly all of it is in one directory. Their shares never overlap.
 */
export function largestParts(entries: readonly Entry[], count: number): Share[] {
  const root: Directory = { bytes: 0, below: new Map() };
  for (const entry of entries) add(root, entry.path.split("/"), sizeOf(entry));
  return [...root.below]
    .map(([name, directory]) => followed(name, directory))
    .sort(bySize)
    .slice(0, count);
}

function add(root: Directory, parts: readonly string[], bytes: number): void {
  let at = root;
  for (const part of parts) {
    at.bytes += bytes;
    const next = at.below.get(part) ?? { bytes: 0, below: new Map() };
    at.below.set(part, next);
    at = next;
  }
  at.bytes += bytes;
}

function followed(path: string, { bytes, below }: Directory): Share {
  for (const [name, next] of below)
    if (next.below.size > 0 && next.bytes >= dominance * bytes) return followed(`${path}/${name}`, next);
  return { path: below.size > 0 ? `${path}/` : path, bytes };
}
