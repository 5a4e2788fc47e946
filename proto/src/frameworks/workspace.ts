import { type PackageJson, parsePackageJson } from "./package-json.ts";
import { type Facts, type Project, readProject } from "./project.ts";

/** Whether the top of a tree says of itself that there are several packages below it. */
export function isWorkspaceRoot(facts: Facts): boolean {
  const { manifest, has, texts } = readProject(facts);
  return (
    manifest?.hasWorkspaces === true ||
    /^packages\s*:/m.test(texts.get("pnpm-workspace.yaml") ?? "") ||
    ["lerna.json", "nx.json", "turbo.json"].some(has)
  );
}

const MEMBERS_MAX = 200;

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
  return [...new Set(found)].sort().slice(0, MEMBERS_MAX);
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
export function workspaceBuild(facts: Facts, directory: string, project: Project, own: string): string {
  const { manifest, manager } = project;
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
  const up = directory.replaceAll(/[^/]+/g, "..");
  if (manager === "npm") return [...first.map((each) => `npm --prefix ${up} run build -w ${each}`), own].join(" && ");
  if (manager === "yarn" || manager === "yarn-berry")
    return [...first.map((each) => `yarn workspace ${each} run build`), own].join(" && ");
  return own;
}

/** The same facts without what is in the directories of other packages. */
export function withoutMembers(facts: Facts): Facts {
  const members = memberDirectories(facts);
  const isOutside = (path: string): boolean => !members.some((directory) => path.startsWith(`${directory}/`));
  return {
    files: new Set([...facts.files].filter(isOutside)),
    texts: new Map([...facts.texts].filter(([path]) => isOutside(path))),
  };
}
