import type { TarType } from "@svc/proto";

/** Bounds of a bundle; an archive beyond any of them is refused whole. */
export const bundleLimits = {
  entriesMax: 200_000,
  archiveBytesMax: 2 * 1024 ** 3,
  unpackedBytesMax: 4 * 1024 ** 3,
  pathBytesMax: 1024,
  nameBytesMax: 255,
  depthMax: 64,
} as const;

export type Place =
  /** Names from the root of the bundle downwards; empty is the root itself. */
  | { kind: "file" | "directory"; segments: string[] }
  /** Not published: dot files, except what visitors look for under /.well-known. */
  | { kind: "hidden" }
  | { problem: string };

/** Names that nobody can mean well: control characters, backslashes, and what was not UTF-8. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const unsafe = /[\u0000-\u001f\u007f\\\ufffd]/;

/**
 * Where an entry of the archive goes. Only files and directories with plain relative names have a place;
 * links, devices and anything that climbs have none.
 */
export function placeOf(name: string, type: TarType): Place {
  if (type !== "file" && type !== "directory") return { problem: `an entry of type ${type}` };
  if (unsafe.test(name) || name.startsWith("/")) return { problem: "an unsafe file name" };
  if (byteLength(name) > bundleLimits.pathBytesMax) return { problem: "a path that is too long" };
  const segments = name.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) return { problem: "a path that leaves the bundle" };
  if (segments.length > bundleLimits.depthMax) return { problem: "directories that are too deep" };
  if (segments.some((segment) => byteLength(segment) > bundleLimits.nameBytesMax))
    return { problem: "a file name that is too long" };
  if (type === "file" && segments.length === 0) return { problem: "a file without a name" };
  const [first, ...rest] = segments;
  const hidden = first === ".well-known" ? rest.some(isDotFile) : segments.some(isDotFile);
  return hidden ? { kind: "hidden" } : { kind: type, segments };
}

const isDotFile = (segment: string): boolean => segment.startsWith(".");

const byteLength = (text: string): number => new TextEncoder().encode(text).length;

/**
 * The modification time, in whole seconds, that stands for a file's content: Caddy makes its ETag from
 * time and size, so equal content has one ETag on every edge and after every deployment. Between 2004 and
 * 2038, which every file system can keep.
 *
 * @param contentHash at least four bytes of a digest of the content
 */
export function contentTime(contentHash: Uint8Array): number {
  const [a = 0, b = 0, c = 0, d = 0] = contentHash;
  return 2 ** 30 + (((a & 0x3f) << 24) | (b << 16) | (c << 8) | d);
}
