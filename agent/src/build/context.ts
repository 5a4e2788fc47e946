import type { Readable } from "node:stream";
import type { Ids } from "../engine/context-owner.ts";
import type { Archive } from "./archive.ts";
import { fileEntry, packTar, type TarEntry } from "./tar.ts";

interface Selection {
  /** Directory of the archive whose content goes into the context; empty for the archive's own root. */
  root: string;
  /** Directory of the context that it goes to; empty for the context's root. */
  into: string;
  keep(path: string): boolean;
  /** Files of the platform, by their path in the context. They take the place of the user's. */
  extra: ReadonlyMap<string, string>;
}

/** A build context whose entries `owner` owns. Equal content gives equal bytes, so that unchanged layers are recognised. */
export const packContext = (archive: Archive, selection: Selection, owner: Ids): Readable =>
  packTar(contextEntries(archive, selection), owner);

async function* contextEntries(archive: Archive, { root, into, keep, extra }: Selection): AsyncGenerator<TarEntry> {
  const nameOf = (path: string): string | null => {
    const inner = pathWithin(path, root);
    if (inner === null || !keep(inner)) return null;
    const name = into === "" ? inner : `${into}/${inner}`;
    return extra.has(name) ? null : name;
  };
  const named = <T>(entries: Iterable<readonly [string, T]>): [string, T][] =>
    [...entries].flatMap(([path, value]) => {
      const name = nameOf(path);
      return name === null ? [] : [[name, value] satisfies [string, T]];
    });
  const files = named(sorted(archive.files));
  const symlinks = named(sorted(archive.symlinks));
  const directories = named([...archive.directories].map((path) => [path, null])).map(([name]) => name);
  // This one has to be there even when nothing is in it.
  if (into !== "") directories.push(into);
  // One that has no entry of its own would be made by the engine, for an owner of its choice.
  const names = [...directories, ...[...files, ...symlinks, ...extra].map(([name]) => name)];
  const all = new Set([...directories, ...names.flatMap(parentsOf)]);
  for (const name of [...all].sort()) yield { kind: "directory", name };
  for (const [name, file] of files) yield await fileEntry(archive, name, file);
  for (const [name, target] of symlinks) yield { kind: "symlink", name, target };
  for (const [name, text] of sorted(extra))
    yield { kind: "bytes", name, executable: false, content: Buffer.from(text) };
}

/** The directories that a path lies in: "a/b/c" in "a" and "a/b". */
const parentsOf = (path: string): string[] =>
  path
    .split("/")
    .slice(0, -1)
    .map((_, index, parts) => parts.slice(0, index + 1).join("/"));

/** `path` relative to `directory`; null when it is not inside. An empty directory is the root. */
export function pathWithin(path: string, directory: string): string | null {
  if (directory === "") return path;
  return path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : null;
}

/** A directory of a manifest as a path without leading or trailing marks: "./apps/web/" is "apps/web", "." is "". */
export const plainDirectory = (text: string): string =>
  text
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");

const sorted = <T>(map: ReadonlyMap<string, T>): [string, T][] =>
  [...map].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
