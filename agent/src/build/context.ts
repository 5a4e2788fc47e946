import type { Readable } from "node:stream";
import type { Ids } from "../engine/context-owner.ts";
import type { Archive } from "./archive.ts";
import { fileEntry, packTar, type TarEntry } from "./tar.ts";

type Selection = {
  /** Directory of the archive whose content goes into the context; empty for the archive's own root. */
  root: string;
  /** Directory of the context that it goes to; empty for the context's root. */
  into: string;
  keep(path: string): boolean;
  /** Files of the platform, by their path in the context. They take the place of the user's. */
  extra: ReadonlyMap<string, string>;
};

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
  // The directory has to be there even when nothing is in it.
  if (into !== "") yield { kind: "directory", name: into };
  for (const path of [...archive.directories].sort()) {
    const name = nameOf(path);
    if (name !== null) yield { kind: "directory", name };
  }
  for (const [path, file] of sorted(archive.files)) {
    const name = nameOf(path);
    if (name !== null) yield await fileEntry(archive, name, file);
  }
  for (const [path, target] of sorted(archive.symlinks)) {
    const name = nameOf(path);
    if (name !== null) yield { kind: "symlink", name, target };
  }
  for (const [name, text] of sorted(extra))
    yield { kind: "bytes", name, executable: false, content: Buffer.from(text) };
}

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
