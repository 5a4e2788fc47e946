import { constants, type Dirent } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  type Facts,
  isWorkspaceRoot,
  parents,
  tellingBytesMax,
  tellingFiles,
  tellingOfBuild,
} from "@svc/proto/frameworks";
import { isFileError } from "@svc/runtime/durable-file";
import type { Entry } from "./deploy/tree.ts";

/** Looked at of a directory, from the top down: what tells of a project is not far below. */
const entriesMax = 20_000;
const depthMax = 5;
const textsMax = 1000;

/** Directories with a dot that hold settings of frameworks. */
const settings = new Set([".vitepress", ".vuepress", ".storybook"]);
const isLookedInto = (name: string): boolean =>
  name !== "node_modules" && (!name.startsWith(".") || settings.has(name));

/**
 * What a directory on this machine tells of the project in it; null when there is no such directory. `named` is one below
 * it that matters, however deep it is.
 */
export async function readFacts(directory: string, named = "."): Promise<Facts | null> {
  const own = named === "." ? "" : named;
  const files = new Set<string>();
  let seen = 0;
  const look = async (top: string, levels: number): Promise<boolean> => {
    let level = [top];
    for (let depth = 0; depth < levels && level.length > 0 && seen < entriesMax; depth++) {
      const below: string[] = [];
      for (const path of level) {
        const entries = await list(join(directory, path));
        if (entries === null && path === top) return false;
        for (const each of entries ?? []) {
          if (++seen > entriesMax) break;
          const name = path === "" ? each.name : `${path}/${each.name}`;
          if (each.isFile() || each.isSymbolicLink()) files.add(name);
          else if (each.isDirectory() && isLookedInto(each.name)) below.push(name);
        }
      }
      level = below;
    }
    return true;
  };
  // What is named comes first, and what installs it: the rest may be too much to see all of it.
  for (const around of parents(own)) await look(around, 1);
  if (own !== "") await look(own, depthMax);
  if (!(await look("", depthMax))) return null;
  return { files, texts: await readTexts(directory, tellingFiles(files, textsMax, own)) };
}

/** The top of the nearest workspace above a directory, and not above `end`; null when it lies in none. */
export async function workspaceAbove(directory: string, end: string | null): Promise<string | null> {
  for (let at = directory; at !== end && at !== dirname(at); ) {
    at = dirname(at);
    const files = ((await list(at)) ?? []).filter((each) => each.isFile()).map(({ name }) => name);
    const texts = await readTexts(at, tellingFiles(files, textsMax));
    if (isWorkspaceRoot({ files: new Set(files), texts })) return at;
  }
  return null;
}

async function readTexts(directory: string, names: readonly string[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const name of names) {
    const text = await readStart(join(directory, name));
    if (text !== null) texts.set(name, text);
  }
  return texts;
}

/** What tells whether `directory` of an archive is built, by what is packed and not by what else lies on this machine. */
export async function packedFacts(entries: readonly Entry[], directory: string): Promise<Facts> {
  const texts = new Map<string, string>();
  const files = new Map(entries.map((entry) => [entry.path, entry] as const));
  for (const path of tellingOfBuild(files.keys(), directory)) {
    const entry = files.get(path);
    if (entry?.kind !== "file" || entry.sizeBytes > tellingBytesMax) continue;
    const text = await readStart(entry.file);
    if (text !== null) texts.set(path, text);
  }
  return { files: new Set(files.keys()), texts };
}

async function list(directory: string): Promise<Dirent[] | null> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES")) return null;
    throw thrown;
  }
}

/** The first part of a file as text; null when it is none that can be read. A pipe of its name is not waited for. */
export async function readStart(path: string): Promise<string | null> {
  try {
    const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      if (!(await file.stat()).isFile()) return null;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(tellingBytesMax), 0, tellingBytesMax, 0);
      return buffer.toString("utf8", 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES", "EISDIR", "ELOOP", "ENXIO")) return null;
    throw thrown;
  }
}
