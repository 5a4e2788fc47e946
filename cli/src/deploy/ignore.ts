import createIgnore, { type Ignore } from "ignore";

/** The rules that count in one directory and below it, for paths from the repository's root. */
export type IgnoreRules = Ignore;

export const noRules: IgnoreRules = createIgnore({ ignorecase: false });

/**
 * The rules of `above` with those of one more ignore file, which lies in `directory` ("" is the root) and
 * is in the format of Git. As in Git, what a deeper file says comes after, and so wins.
 */
export function withIgnoreFile(above: IgnoreRules, directory: string, text: string): IgnoreRules {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  return createIgnore({ ignorecase: false })
    .add(above)
    .add(lines.map((line) => fromRoot(directory, line)));
}

/** A line of the ignore file in `directory` as it would stand in the root's. */
function fromRoot(directory: string, line: string): string {
  if (directory === "" || line.startsWith("#") || line.trim() === "") return line;
  const [, negation = "", pattern = ""] = /^(!?)(.*)$/.exec(line) ?? [];
  // With a slash before its end a pattern is bound to its file's directory, else it fits at any depth below.
  const isBound = /\/./.test(pattern.trimEnd());
  const literal = directory.replace(/[\\*?[]/g, "\\$&");
  return `${negation}/${literal}/${isBound ? "" : "**/"}${pattern.replace(/^\//, "")}`;
}

/** Whether the rules leave `path` out. */
export const isIgnored = (rules: IgnoreRules, path: string, isDirectory: boolean): boolean =>
  rules.test(isDirectory ? `${path}/` : path).ignored;

/** What a deploy is told to take along whatever the ignore files say, by paths from the packed root. */
export type Wanted = {
  /** Single files: those of `env.files`. */
  files: ReadonlySet<string>;
  /** Directories with all that is below them: migrations. */
  directories: readonly string[];
};

/** Whether a rule of the platform decides over `path`, and how; null leaves it to the ignore files. */
export function fixedRule(path: string, wanted: Wanted): "take" | "leave" | null {
  const parts = path.split("/");
  const name = parts.at(-1) ?? "";
  if (name === ".git" || name === "node_modules") return "leave";
  if (name === "state.json" && parts.at(-2) === ".svc") return "leave";
  // The way to something that is wanted has to stay open.
  const isOnTheWay = [...wanted.files, ...wanted.directories].some((each) => each.startsWith(`${path}/`));
  if (wanted.files.has(path) || isOnTheWay) return "take";
  if (name.startsWith(".env")) return "leave";
  return wanted.directories.some((each) => path === each || path.startsWith(`${each}/`)) ? "take" : null;
}
