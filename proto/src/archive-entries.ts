import { show } from "./archive-refusal.ts";
import { limits } from "./limits.ts";
import type { TarHeader } from "./tar.ts";
import { utf8Length } from "./text.ts";

/** One thing of an archive that passed the rules. Paths are relative, with "/" and without "." or "..". */
export type ArchiveEntry =
  | { kind: "directory"; path: string }
  | { kind: "file"; path: string; executable: boolean; sizeBytes: number }
  | { kind: "symlink"; path: string; target: string }
  /** A second name of an earlier file. */
  | { kind: "hardlink"; path: string; target: string };

export interface ArchiveOptions {
  /** What a build of ours wrote: it has two names that differ in case because it was to, such as the pages of two tags. */
  isOutput?: boolean;
}

/** What to do about an entry. `tooLarge` tells a refusal for sheer size from one for what the entry is. */
export type Verdict = { keep: ArchiveEntry } | { skip: true } | { refuse: string; tooLarge?: true };

const setuid = 0o4000;
const setgid = 0o2000;
const anyExecute = 0o111;
const unprintable = /[\p{Cc}\ufffd\u2028\u2029]/u;

const specialKinds = {
  device: "is a device",
  pipe: "is a named pipe",
  sparse: "is a sparse file",
  unknown: "is neither a file, a directory nor a link",
} as const;

/**
 * The rules for the entries of one untrusted archive, in their order. One refusal means that the whole archive is
 * refused: no packer makes such an entry by itself, and leaving it out would hide an attack.
 *
 * Names that differ only in how Unicode composes a letter look the same to everybody, so the second of them is refused.
 * So is, in what somebody packed, one that differs only in case: on the machine where it is looked at there may be only
 * one of the two, and not the one that is built here.
 *
 * @param maxBytes what all files together may hold
 */
export function createArchiveRules(
  maxBytes: number,
  { isOutput = false }: ArchiveOptions = {},
): (header: TarHeader) => Verdict {
  /** By folded name; a directory that was never an entry is here too, once something lies in it. */
  const seen = new Map<string, { path: string; kind: ArchiveEntry["kind"] }>();
  let entries = 0;
  let totalBytes = 0;
  let namesLength = 0;
  /** The directory that was looked at last: its files mostly come one after the other. */
  let directory = "";

  const fold = isOutput ? composed : withoutCase;
  const find = (path: string) => seen.get(fold(path));
  const remember = (path: string, kind: ArchiveEntry["kind"]): void => {
    namesLength += path.length;
    seen.set(fold(path), { path, kind });
  };

  const refuseParents = (parts: readonly string[]): string | null => {
    const own = parts.slice(0, -1).join("/");
    if (own === directory) return null;
    for (let depth = 1; depth < parts.length; depth++) {
      const parent = parts.slice(0, depth).join("/");
      const known = find(parent);
      if (known === undefined) remember(parent, "directory");
      else if (known.path !== parent) return twinProblem(parent, known.path);
      else if (known.kind !== "directory") return `lies under ${show(parent)}, which is not a directory`;
    }
    directory = own;
    return null;
  };

  const judge = ({ type, mode, sizeBytes, linkname }: TarHeader, parts: readonly string[]): Verdict => {
    const path = parts.join("/");
    // A directory's setgid bit only says who owns new files; no mode of a directory is kept.
    if ((mode & (type === "directory" ? setuid : setuid | setgid)) !== 0 && type !== "symlink")
      return { refuse: "carries a setuid or setgid bit" };
    switch (type) {
      case "directory":
        return { keep: { kind: "directory", path } };
      case "file":
        return { keep: { kind: "file", path, executable: (mode & anyExecute) !== 0, sizeBytes } };
      case "symlink": {
        const problem = symlinkProblem(parts, linkname);
        return problem === null ? { keep: { kind: "symlink", path, target: linkname } } : { refuse: problem };
      }
      case "hardlink": {
        const target = splitPath(linkname);
        const original = Array.isArray(target) ? target.join("/") : "";
        const known = find(original);
        if (known?.kind !== "file" || known.path !== original)
          return { refuse: "is a link to something that is not an earlier file" };
        return { keep: { kind: "hardlink", path, target: original } };
      }
      default:
        return { refuse: specialKinds[type] };
    }
  };

  const admit = (header: TarHeader): Verdict => {
    const parts = splitPath(header.name);
    if (!Array.isArray(parts)) return { refuse: parts };
    // ".//" is how many packers begin.
    if (parts.length === 0) return header.type === "directory" ? { skip: true } : { refuse: "has no name" };
    const problem = refuseParents(parts);
    if (problem !== null) return { refuse: problem };
    const verdict = judge(header, parts);
    if (!("keep" in verdict)) return verdict;
    const { kind, path } = verdict.keep;
    const known = find(path);
    if (known === undefined) {
      remember(path, kind);
      return verdict;
    }
    if (known.path !== path) return { refuse: twinProblem(path, known.path) };
    return known.kind === "directory" && kind === "directory" ? { skip: true } : { refuse: "appears twice" };
  };

  return (header) => {
    entries += 1;
    totalBytes += header.sizeBytes;
    if (totalBytes > maxBytes) return { refuse: "unpacks to more than is allowed", tooLarge: true };
    const verdict = admit(header);
    // A name may bring many directories along, so they count like entries.
    if (Math.max(entries, seen.size) > limits.archiveEntriesMax)
      return { refuse: `is one of more than ${limits.archiveEntriesMax} entries`, tooLarge: true };
    if (namesLength > limits.archiveNamesLengthMax)
      return { refuse: "makes the names too long together", tooLarge: true };
    return verdict;
  };
}

const composed = (path: string): string => path.normalize("NFC");
/** The same for all names that some file system takes for one; in both directions, because σ and ς are both Σ. */
const withoutCase = (path: string): string => composed(path.normalize("NFD").toUpperCase().toLowerCase());

const twinProblem = (path: string, known: string): string =>
  composed(path) === composed(known)
    ? `has the name of ${show(known)} in another Unicode form`
    : `differs from ${show(known)} only in upper and lower case: rename or remove one of them`;

/** The components of a relative path inside the archive, or why it is none. */
function splitPath(name: string): string[] | string {
  if (unprintable.test(name)) return "has a name with characters that no name should have";
  if (utf8Length(name) > limits.archivePathBytesMax) return "has a name that is too long";
  if (name.startsWith("/")) return "has an absolute name";
  if (name.includes("\\")) return "has a backslash in its name";
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) return "points out of the archive";
  if (parts.length > limits.archiveDepthMax) return "lies too deep";
  if (parts.some((part) => utf8Length(part) > limits.archiveNameBytesMax)) return "has a name that is too long";
  return parts;
}

/**
 * A target may climb only at its beginning, and not above the root. Parents of an entry are real directories,
 * so such a target stays inside whatever other links it passes through.
 */
function symlinkProblem(parts: readonly string[], target: string): string | null {
  if (target === "" || unprintable.test(target) || target.includes("\\")) return "is a link with a malformed target";
  if (target.startsWith("/")) return "is a link to an absolute name";
  if (utf8Length(target) > limits.archivePathBytesMax) return "is a link with a target that is too long";
  const steps = target.split("/").filter((part) => part !== "" && part !== ".");
  const climbs = steps.findIndex((part) => part !== "..");
  const up = climbs < 0 ? steps.length : climbs;
  if (steps.slice(up).includes("..")) return "is a link with a target that climbs midway";
  if (up > parts.length - 1) return "is a link that points out of the archive";
  return null;
}
