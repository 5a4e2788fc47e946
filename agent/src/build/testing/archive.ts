import { Readable } from "node:stream";
import type { Archive } from "../archive.ts";

/** The content of an archive in memory. */
export function anArchive(texts: Record<string, string>): Archive {
  const files = new Map(
    Object.entries(texts).map(([path, text], offset) => [
      path,
      { path, executable: false, offset, sizeBytes: text.length },
    ]),
  );
  return {
    files,
    symlinks: new Map(),
    directories: new Set(),
    read: async ({ path }) => Buffer.from(texts[path] ?? ""),
    stream: ({ path }) => Readable.from([Buffer.from(texts[path] ?? "")]),
    [Symbol.asyncDispose]: async () => {},
  };
}
