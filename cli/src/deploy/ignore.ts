import createIgnore, { type Ignore } from "ignore";

/** The rules that count in one directory and below it, for paths from the repository's root. */
export type IgnoreRules = Ignore;

export const noRules: IgnoreRules = createIgnore({ ignorecase: false });

/**
 * The rules of `above` with those of one more ignore file, which lies at `path` from the repository's root and is in
 * the format of Git. As in Git, what a deeper file says comes after, and so wins.
 */
export function withIgnoreFile(above: IgnoreRules, path: string, text: string): IgnoreRules {
  const directory = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  return createIgnore({ ignorecase: false })
    .add(above)
    .add(
      lines.map((line, at) => ({ pattern: fromRoot(directory, line), mark: `${line.trim()} in ${path}:${at + 1}` })),
    );
}

/** A line of the ignore file in `directory` as it would stand in the root's. */
function fromRoot(directory: string, line: string): string {
  if (directory === "" || line.startsWith("#") || line.trim() === "") return line;
  const [, negation = "", pattern = ""] = /^(!?)(.*)$/.exec(line) ?? [];
  // As in Git it names nothing.
  if (/^\/+\s*$/.test(pattern)) return "";
  // With a slash before its end a pattern is bound to its file's directory, else it fits at any depth below.
  const isBound = /\/./.test(pattern.trimEnd());
  const literal = directory.replace(/[\\*?[]/g, "\\$&");
  return `${negation}/${literal}/${isBound ? "" : "**/"}${pattern.replace(/^\//, "")}`;
}

/** The rule that leaves `path` out, and where it stands; null when it is not left out. */
export function ignoredBy(rules: IgnoreRules, path: string, isDirectory: boolean): string | null {
  const { ignored, rule } = rules.test(isDirectory ? `${path}/` : path);
  return ignored ? (rule?.mark ?? "an ignore file") : null;
}

/** What a deploy is told to take along whatever the ignore files say, by paths from the packed root. */
export interface Wanted {
  /** Single files: those of `env.files`. */
  files: ReadonlySet<string>;
  /** Directories with all that is below them: migrations. */
  directories: readonly string[];
}

/** How a rule of the platform decides over `path`, and why it is left out; null leaves it to the ignore files. */
export function fixedRule(path: string, wanted: Wanted): "take" | { leave: string } | null {
  const parts = path.split("/");
  const name = parts.at(-1) ?? "";
  if (name === ".git") return { leave: "Git's own, never packed" };
  if (name === "node_modules") return { leave: "installed again by the build, never packed" };
  if (name === "state.json" && parts.at(-2) === ".svc") return { leave: "this directory's link, never packed" };
  // The way to something that is wanted has to stay open.
  const isOnTheWay = [...wanted.files, ...wanted.directories].some((each) => each.startsWith(`${path}/`));
  if (wanted.files.has(path) || isOnTheWay) return "take";
  if (name.startsWith(".env")) return { leave: "may hold secrets; env.files in the manifest takes it along" };
  return wanted.directories.some((each) => path === each || path.startsWith(`${each}/`)) ? "take" : null;
}
