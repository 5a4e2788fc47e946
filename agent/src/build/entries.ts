/** One thing of an archive that passed the rules. */
export type Entry =
  | { kind: "directory"; path: string }
  | { kind: "file"; path: string; executable: boolean }
  | { kind: "symlink"; path: string; target: string }
  /** A second name of an earlier file. */
  | { kind: "hardlink"; path: string; target: string };

/** The part of a tar header that the rules read. */
export type Header = { name: string; type: string | null | undefined; mode: number; size: number; linkname: string };

export type Verdict = { keep: Entry } | { refuse: string } | { skip: true };

const ENTRIES_MAX = 200_000;
const PATH_MAX_BYTES = 1024;
const PART_MAX_BYTES = 255;
const DEPTH_MAX = 64;
const SETUID_OR_SETGID = 0o6000;
const ANY_EXECUTE = 0o111;
const unprintable = /[\p{Cc}\ufffd\u2028\u2029]/u;

/**
 * The rules for the entries of one untrusted archive, in their order. One refusal means that the whole
 * archive is refused: a packer never makes such an entry, and leaving it out would hide an attack.
 *
 * @param maxBytes what all files together may hold
 */
export function createArchiveRules(maxBytes: number): (header: Header) => Verdict {
  const seen = new Map<string, Entry["kind"]>();
  let totalBytes = 0;
  let entries = 0;

  const refuseParents = (parts: readonly string[]): string | null => {
    for (let depth = 1; depth < parts.length; depth += 1) {
      const parent = parts.slice(0, depth).join("/");
      const kind = seen.get(parent);
      if (kind === undefined) seen.set(parent, "directory");
      else if (kind !== "directory") return `lies under ${show(parent)}, which is not a directory`;
    }
    return null;
  };

  const judge = (header: Header, parts: readonly string[]): Verdict => {
    const path = parts.join("/");
    if (header.type === "directory") return { keep: { kind: "directory", path } };
    if (header.type === "file") {
      if ((header.mode & SETUID_OR_SETGID) !== 0) return { refuse: "carries a setuid or setgid bit" };
      return { keep: { kind: "file", path, executable: (header.mode & ANY_EXECUTE) !== 0 } };
    }
    if (header.type === "symlink") {
      const problem = symlinkProblem(parts, header.linkname);
      return problem === null ? { keep: { kind: "symlink", path, target: header.linkname } } : { refuse: problem };
    }
    if (header.type === "link") {
      const target = splitPath(header.linkname);
      const name = Array.isArray(target) ? target.join("/") : "";
      if (seen.get(name) !== "file") return { refuse: "is a link to something that is not an earlier file" };
      return { keep: { kind: "hardlink", path, target: name } };
    }
    return { refuse: "is neither a file, a directory nor a link" };
  };

  return (header) => {
    entries += 1;
    if (entries > ENTRIES_MAX) return { refuse: `is one of more than ${ENTRIES_MAX} entries` };
    if (header.size > 0) totalBytes += header.size;
    if (totalBytes > maxBytes) return { refuse: "unpacks to more than is allowed" };
    const parts = splitPath(header.name);
    if (!Array.isArray(parts)) return { refuse: parts };
    // "./" is how many packers begin.
    if (parts.length === 0) return header.type === "directory" ? { skip: true } : { refuse: "has no name" };
    const problem = refuseParents(parts);
    if (problem !== null) return { refuse: problem };
    const verdict = judge(header, parts);
    if (!("keep" in verdict)) return verdict;
    const { kind, path } = verdict.keep;
    const known = seen.get(path);
    if (known === "directory" && kind === "directory") return { skip: true };
    if (known !== undefined) return { refuse: "appears twice" };
    seen.set(path, kind);
    return verdict;
  };
}

/** The components of a relative path inside the archive, or why it is none. */
function splitPath(name: string): string[] | string {
  if (unprintable.test(name)) return "has a name with characters that no name should have";
  if (Buffer.byteLength(name) > PATH_MAX_BYTES) return "has a name that is too long";
  if (name.startsWith("/")) return "has an absolute name";
  if (name.includes("\\")) return "has a backslash in its name";
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) return "points out of the archive";
  if (parts.length > DEPTH_MAX) return "lies too deep";
  if (parts.some((part) => Buffer.byteLength(part) > PART_MAX_BYTES)) return "has a name that is too long";
  return parts;
}

/**
 * A target may climb only at its beginning, and not above the root. Parents of an entry are real directories,
 * so such a target stays inside whatever other links it passes through.
 */
function symlinkProblem(parts: readonly string[], target: string): string | null {
  if (target === "" || unprintable.test(target) || target.includes("\\")) return "is a link with a malformed target";
  if (target.startsWith("/")) return "is a link to an absolute name";
  if (Buffer.byteLength(target) > PATH_MAX_BYTES) return "is a link with a target that is too long";
  const steps = target.split("/").filter((part) => part !== "" && part !== ".");
  const climbs = steps.findIndex((part) => part !== "..");
  const up = climbs < 0 ? steps.length : climbs;
  if (steps.slice(up).includes("..")) return "is a link with a target that climbs midway";
  if (up > parts.length - 1) return "is a link that points out of the archive";
  return null;
}

/** A name as it may stand in a message or a log. */
export const show = (name: string): string => JSON.stringify(name.length > 120 ? `${name.slice(0, 120)}…` : name);
