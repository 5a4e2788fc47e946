import type { Facts } from "./facts.ts";
import { type PackageJson, parsePackageJson } from "./package-json.ts";
import { lockFiles } from "./package-manager.ts";
import { type Project, parents, readProject, within } from "./project.ts";

/** Whether a directory of a tree, "" for its top, says of itself that there are several packages below it. */
export function isWorkspaceRoot({ files, texts }: Facts, directory = ""): boolean {
  const at = (name: string): string => (directory === "" ? name : `${directory}/${name}`);
  return (
    parsePackageJson(texts.get(at("package.json")) ?? "")?.hasWorkspaces === true ||
    /^packages\s*:/m.test(texts.get(at("pnpm-workspace.yaml")) ?? "") ||
    ["lerna.json", "nx.json", "turbo.json"].some((name) => files.has(at(name)))
  );
}

/** The top of the workspace that is the nearest around a directory of a tree; "", the tree's own, without one. */
const workspaceAround = (facts: Facts, directory: string): string =>
  parents(directory).find((each) => isWorkspaceRoot(facts, each)) ?? "";

/**
 * A directory of a tree as a project: with the package manager of the workspace around it and, where that is one of Nx,
 * with its packages.
 */
export function readMember(facts: Facts, directory: string): Project {
  const own = within(facts, directory);
  if (directory === "" || lockFiles.some((name) => own.files.has(name))) return readProject(own);
  const top = readProject(within(facts, workspaceAround(facts, directory)));
  return readProject(own, {
    manager: top.manager,
    ...(top.has("nx.json") && top.manifest !== null && { inherited: top.manifest.dependencies }),
  });
}

/** The name that the package in a directory of a tree gives itself; null without one. "." is the top. */
export const packageName = (facts: Facts, directory: string): string | null =>
  readMember(facts, directory === "." ? "" : directory).manifest?.name ?? null;

const membersMax = 200;

/** Directories below the top that have a `package.json` of their own, or a Dockerfile and something that it builds. */
export function memberDirectories({ files }: Facts): string[] {
  const all = [...files];
  const hasSources = (directory: string): boolean =>
    all.some(
      (path) => path.startsWith(`${directory}/`) && !/(?:file|ignore|\.ya?ml|\.sh|\.conf|\.env|\.md)$/.test(path),
    );
  const found = all.flatMap((path) => {
    const [, directory, name] = /^(.+)\/(package\.json|Dockerfile)$/.exec(path) ?? [];
    if (directory === undefined || directory.split("/").length > 3) return [];
    return name === "package.json" || hasSources(directory) ? [directory] : [];
  });
  return [...new Set(found)].sort().slice(0, membersMax);
}

/** What the packages in these directories say of themselves. */
export const memberPackages = (facts: Facts): PackageJson[] =>
  memberDirectories(facts).flatMap(
    (directory) => parsePackageJson(facts.texts.get(`${directory}/package.json`) ?? "") ?? [],
  );

/**
 * The command that builds a package of a workspace: its own, and before it those of the packages of the workspace
 * that it is made from. It runs in the package's directory.
 */
export function workspaceBuild(tree: Facts, directory: string, project: Project, own: string): string {
  const { manifest, manager } = project;
  const home = workspaceAround(tree, directory);
  const facts = within(tree, home);
  const top = readProject(facts);
  const name = manifest?.name ?? "";
  if (!/^[@\w./-]+$/.test(name) || !own.includes(" run ")) return own;
  const needed = memberPackages(facts).filter(
    (each) => each.name !== null && manifest?.dependencies.has(each.name) && each.scripts.has("build"),
  );
  if (needed.length === 0) return own;
  const script = own.split(" ").pop() ?? "build";
  if (top.manifest?.dependencies.has("turbo") && top.has("turbo.json")) return `turbo run ${script} --filter=${name}`;
  if (manager === "pnpm") return `pnpm --filter "${name}..." run ${script}`;
  const first = needed.map((each) => each.name ?? "").filter((each) => /^[@\w./-]+$/.test(each));
  const up = (home === "" ? directory : directory.slice(home.length + 1)).replaceAll(/[^/]+/g, "..");
  if (manager === "npm") return [...first.map((each) => `npm --prefix ${up} run build -w ${each}`), own].join(" && ");
  if (manager === "yarn" || manager === "yarn-berry")
    return [...first.map((each) => `yarn workspace ${each} run build`), own].join(" && ");
  return own;
}

/** The same facts without what is in the directories of other packages below `directory`. */
export function withoutMembers(facts: Facts, directory: string): Facts {
  const below = directory === "" ? "" : `${directory}/`;
  const members = memberDirectories(facts).filter((each) => each.startsWith(below));
  const isOutside = (path: string): boolean => !members.some((each) => path.startsWith(`${each}/`));
  return {
    files: new Set([...facts.files].filter(isOutside)),
    texts: new Map([...facts.texts].filter(([path]) => isOutside(path))),
  };
}
