import type { Facts } from "./facts.ts";
import { buildScriptOf, configText, pathInside } from "./framework.ts";
import type { Project } from "./project.ts";
import { readMember } from "./workspace.ts";

/** Where a site is looked for when neither the manifest nor the framework tells. */
export const usualOutputs = ["dist", "build", "out", "_site", "public"] as const;

/** Where a site is that a command makes, as long as nothing tells. */
export const defaultOutput = "dist";

/** What a manifest says about a static build: of a command it leaves open "", of an output null. */
export interface SiteSaid {
  command: string;
  output: string | null;
}

/** The command that makes a site, and the directories to look in for it, the likeliest first; they may hold `*`. */
export interface SiteBuild {
  command: string;
  outputs: readonly string[];
}

/**
 * How a site is built. Null when the files as they are packed are the site.
 *
 * A normalised manifest without a command has the output ".", which may be what nobody wrote, so that leaves open
 * whether anything is built.
 */
export function siteBuild(said: SiteSaid, project: Project): SiteBuild | null {
  if (said.command !== "") {
    const isOpen = said.output === null && project.framework !== null;
    return { command: said.command, outputs: isOpen ? withDefault(project) : [said.output ?? defaultOutput] };
  }
  const isOpen = said.output === null || said.output === "" || said.output === ".";
  const command = isOpen ? siteCommand(project) : null;
  return command === null ? null : { command, outputs: siteOutputs(project) };
}

/**
 * Whether a static site of which its manifest says nothing is built all the same: the project in `directory` of a tree
 * has a build of its own. Also when its package.json was not read, since whoever reads it may find one.
 */
export function buildsItself(tree: Facts, directory: string): boolean {
  const root = directory === "." ? "" : directory;
  const path = root === "" ? "package.json" : `${root}/package.json`;
  if (!tree.files.has(path)) return false;
  return !tree.texts.has(path) || siteBuild({ command: "", output: null }, readMember(tree, root)) !== null;
}

/**
 * Where the site of a command is looked for that may do what the framework does, or something else. A directory that has
 * sources comes last: that it is there after the build says nothing.
 */
function withDefault(project: Project): string[] {
  const all = unique([...siteOutputs(project), defaultOutput]);
  const hasSources = (output: string): boolean => [...project.files].some((path) => path.startsWith(`${output}/`));
  return [...all.filter((output) => !hasSources(output)), ...all.filter(hasSources)];
}

/** The command that builds a server; "" when there is nothing to build. */
export function serverBuild(said: string, project: Project): string {
  return said === "" ? (buildCommand(project, []) ?? "") : said;
}

function siteCommand(project: Project): string | null {
  return buildCommand(project, siteForm(project)?.builds ?? []);
}

/** @param first scripts that go before those of the framework */
function buildCommand({ manifest, framework, runScript }: Project, first: readonly string[]): string | null {
  const names = [...first, ...(framework?.builds ?? ["build"])];
  const name = names.find((each) => manifest?.scripts.has(each));
  return name === undefined ? (framework?.buildProgram ?? null) : runScript(name);
}

/** How the framework makes a site: as it is set up, or as it could be. */
const siteForm = ({ framework, form }: Project) =>
  form?.site ?? framework?.forms.find(({ site }) => site !== undefined)?.site;

function siteOutputs(project: Project): readonly string[] {
  if (project.framework === null) return usualOutputs;
  const outputs = unique([...saidOutputs(project), ...(siteForm(project)?.outputs ?? [])]);
  return outputs.length === 0 ? usualOutputs : outputs;
}

/** What the project itself says about where its build leaves the result, as far as that can be read. */
function saidOutputs(project: Project): string[] {
  const { framework, manifest } = project;
  if (framework === null || manifest === null) return [];
  const texts = [buildScriptOf(framework, manifest) ?? "", configText(project)];
  const found = (framework.outputSaid ?? []).flatMap((said) => texts.flatMap((text) => said.exec(text)?.[1] ?? []));
  return found.flatMap((path) => pathInside(path) ?? []);
}

export const unique = (all: readonly string[]): string[] => [...new Set(all)];
