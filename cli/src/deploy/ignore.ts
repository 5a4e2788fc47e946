import createIgnore, { type Ignore } from "ignore";

/** The rules of one ignore file. `directory` is where it lies, from the root of the rules; "" for the root itself. */
export type IgnoreRules = { directory: string; rules: Ignore };

/** Reads an ignore file in the format of Git. */
export const readIgnoreRules = (directory: string, text: string): IgnoreRules => ({
  directory,
  rules: createIgnore({ ignorecase: false }).add(text.replace(/^\ufeff/, "")),
});

/**
 * Whether `path` is ignored, by the rule of Git: the deepest file that says anything about it decides.
 * `chain` has the files of the directories above `path`, from the root down. Directories above `path`
 * are taken not to be ignored: who walks a tree never enters an ignored one.
 */
export function isIgnored(chain: readonly IgnoreRules[], path: string, isDirectory: boolean): boolean {
  for (const { directory, rules } of chain.toReversed()) {
    const below = directory === "" ? path : path.slice(directory.length + 1);
    const { ignored, unignored } = rules.test(isDirectory ? `${below}/` : below);
    if (ignored) return true;
    if (unignored) return false;
  }
  return false;
}

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
