import { isOneLine } from "./text.ts";

/**
 * Why `path` is not a path inside a directory: it must be relative, use `/`, and never climb.
 * "." is the directory itself.
 */
export function pathProblem(path: string): string | null {
  if (path === "") return "is empty";
  if (!isOneLine(path)) return "contains control characters";
  if (path.includes("\\")) return 'uses "\\" instead of "/"';
  if (path.startsWith("/")) return "must be relative";
  if (path.split("/").includes("..")) return 'contains ".."';
  // What a shell, a command line or another system would read as something else than a name.
  return /^([~-]|[A-Za-z]:)/.test(tidyPath(path)) ? "starts like something else than a name" : null;
}

/** A valid path in one spelling: `./apps//web/` -> `apps/web`; the directory itself is ".". */
export function tidyPath(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.length === 0 ? "." : parts.join("/");
}

/** The directory that holds `path`, both tidy. */
export function directoryOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash === -1 ? "." : path.slice(0, slash);
}

/** Why `path` is not the path part of a URL on the same site, or null. */
export function urlPathProblem(path: string): string | null {
  if (!path.startsWith("/")) return 'must start with "/"';
  if (path.startsWith("//")) return 'must not start with "//"';
  if (!/^[\x21-\x7e]+$/.test(path)) return "has only printable ASCII characters and no spaces";
  if (/[\\#"<>`{}]/.test(path)) return "contains a character that a URL path cannot have";
  const segments = (path.split("?")[0] ?? "").split("/");
  if (segments.some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) return 'contains "." or ".." segments';
  return null;
}

/** Where a deployment's source came from: paths from the repository's root, tidy. */
export interface SourceProvenance {
  /** Directory that is built; ".": the whole repository. */
  rootDirectory: string;
  manifestPath: string;
  /** What a change must touch to matter, as globs from the repository's root. */
  watchPaths: string[];
}

/**
 * Completes provenance. A manifest at the repository's root may choose a directory below it; one in a
 * subdirectory builds that directory and cannot point elsewhere.
 */
export function rootProvenance(source: Partial<SourceProvenance>): SourceProvenance | { problem: string } {
  const manifestPath = source.manifestPath ?? "svc.yml";
  const home = directoryOf(manifestPath);
  const rootDirectory = source.rootDirectory ?? home;
  if (home !== "." && rootDirectory !== home)
    return { problem: `a manifest in ${home} builds ${home} and cannot choose another root directory` };
  const inside = rootDirectory === "." ? ["**"] : [`${rootDirectory}/**`];
  const outside = home === "." && rootDirectory !== "." ? [manifestPath] : [];
  return { rootDirectory, manifestPath, watchPaths: source.watchPaths ?? [...inside, ...outside] };
}
