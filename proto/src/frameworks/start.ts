import { serverBuild } from "./build.ts";
import { lookThrough, programsOf, purposeOf, runsElsewhere, scriptsMax } from "./commands.ts";
import { codeOf } from "./framework.ts";
import { languageOf, notNode } from "./languages.ts";
import { hasProgramFolder } from "./package-manager.ts";
import type { Project } from "./project.ts";
import { serverPackages } from "./table.ts";

/** A server as it is started, and what of the build it needs. */
export interface ServerStart {
  command: string;
  /** Whether Next's traced copy of the app is all that is needed. */
  standalone: boolean;
  /** What tells that it is started like this, as the end of a sentence. */
  why: string;
  /** Packages for development that it is started with, by their names: they have to stay. */
  keeps: readonly string[];
  /** What was put in the place of a development server, as a sentence; null when nothing was. */
  note: string | null;
}

/** Scripts that people have for what `start` means here, the likeliest first. */
const productionScripts = ["start:prod", "start:production", "serve:prod", "prod", "production"];

/**
 * How a server is started: as the manifest says, or as the project tells when it says nothing. A server for
 * development is never started: the app's own way takes its place, and where none is known `problem` says what to
 * write.
 *
 * @param said commands of the manifest; "" for what it leaves open
 */
export function serverStart(
  said: { build: string; start: string },
  project: Project,
): ServerStart | { problem: string } {
  const found = chosenStart(said, project);
  if ("problem" in found || found.standalone) return found;
  const { manifest } = project;
  const keeps = programsOf(found.command, manifest).filter((name) => manifest?.developmentOnly.has(name));
  return { ...found, keeps };
}

const start = (command: string, why: string): ServerStart => ({
  command,
  why,
  standalone: false,
  keeps: [],
  note: null,
});

function startBy(command: string, why: string, project: Project): ServerStart | { problem: string } {
  const through = throughScripts(command, project);
  return "problem" in through ? through : start(through.command, why);
}

function chosenStart(said: { build: string; start: string }, project: Project): ServerStart | { problem: string } {
  const { manifest } = project;
  const copy = tracesApp(project) && serverBuild(said.build, project) !== "" ? tracedCopy : null;
  if (said.start !== "") {
    if (purposeOf(said.start, manifest) !== "development")
      return startBy(said.start, "start.command of the manifest", project);
    return instead(`start.command "${said.start}" runs`, said.start, project, copy);
  }
  if (copy !== null) return copy;
  const script = manifest?.scripts.get("start")?.trim() ?? "";
  if (script !== "") {
    const command = project.runScript("start");
    const purpose = purposeOf(command, manifest);
    if (purpose === "development") return instead("The start script runs", command, project, copy);
    const { framework } = project;
    const isElsewhere = framework?.startsElsewhere?.test(lookThrough(command, manifest).command) === true;
    if (!isElsewhere) return startBy(command, "the start script", project);
  }
  return knownStart(project) ?? { problem: nothingStarts(project) };
}

const tracedCopy: ServerStart = {
  command: "node server.js",
  why: "Next's standalone output",
  standalone: true,
  keeps: [],
  note: null,
};

function instead(
  subject: string,
  command: string,
  project: Project,
  copy: ServerStart | null,
): ServerStart | { problem: string } {
  const runs = `${subject} "${lookThrough(command, project.manifest).command}", which is for development`;
  const known = copy ?? knownStart(project);
  if (known === null) return { problem: `${runs} and no server for visitors. ${nothingStarts(project)}` };
  return { ...known, note: `${runs}. "${known.command}" is started instead (${known.why}).` };
}

/** What starts the built app without asking its start script. */
function knownStart(project: Project): ServerStart | null {
  const { manifest, framework, form } = project;
  const script = productionScripts.find((name) => manifest?.scripts.has(name));
  if (script !== undefined) {
    const command = project.runScript(script);
    if (purposeOf(command, manifest) === "server" && !runsElsewhere(lookThrough(command, manifest).command)) {
      const known = startBy(command, `the script ${script}`, project);
      if (!("problem" in known)) return known;
    }
  }
  if (form?.server !== undefined) return start(form.server.start, `the way of ${framework?.name}`);
  // Where a framework makes no server, whatever else lies around is one only if it is written with one.
  if (framework !== null && (form?.site === undefined || serverPackageOf(project) === null)) return null;
  const main = mainFile(project);
  return main === null ? null : start(main.command, main.why);
}

/** A sentence for a project of which nothing tells how it is started. */
function nothingStarts({ framework, form, manifest, files }: Project): string {
  const language = manifest === null ? languageOf(files) : null;
  if (language !== null) {
    const { problem, cure } = notNode(language);
    return `${problem}. ${cure}.`;
  }
  if (framework !== null && form?.site !== undefined && form.server === undefined) {
    const other = form.cure === undefined ? "" : ` For a server: ${form.cure}.`;
    return `${framework.name} makes a site of this project, not a server: write app.type: static.${other}`;
  }
  if (framework !== null && form?.cure !== undefined)
    return `${framework.name} makes no server of this project. ${form.cure}.`;
  return "Nothing says how to start the app: set start.command in the manifest, or a start script in package.json.";
}

/**
 * What a command of the kind "npm start" runs in the end. A package manager between the engine and the app takes
 * several times the memory of a small app, and does not pass every signal on. What is built anyway is not built again
 * on each start, for which the tools would be missing. The command itself when the package manager is needed.
 */
function throughScripts(command: string, project: Project): { command: string } | { problem: string } {
  const { manifest, manager } = project;
  const build = lookThrough(serverBuild("", project), manifest).command;
  const seen = new Set<string>();
  const reached = (at: string) => ({ command: hasProgramFolder(manager) ? at : command });
  let at = command;
  for (;;) {
    const through = lookThrough(at, manifest);
    const again = through.again ?? through.scripts.find((name) => seen.has(name)) ?? null;
    if (again !== null)
      return {
        problem: `The script "${again}" of package.json runs itself: write what starts the server into it, such as node server.js.`,
      };
    if (through.scripts.length === 0 || seen.size > scriptsMax) return reached(at);
    for (const name of through.scripts) seen.add(name);
    const parts = through.command.split("&&").map((part) => part.trim());
    const last = parts.pop() ?? "";
    const buildsFirst = parts.length > 0 && parts.every((each) => lookThrough(each, manifest).command === build);
    if (!buildsFirst || /[|;&]/.test(last)) return reached(through.direct ? through.command : at);
    at = last;
  }
}

const usualFiles = ["server.js", "index.js", "app.js", "server.mjs", "index.mjs"];
/** Bun runs sources as they are. */
const bunFiles = ["index.ts", "src/index.ts", "server.ts", "src/server.ts", "app.ts"];

function mainFile({ manifest, has, manager }: Project): { command: string; why: string } | null {
  const usual = [...usualFiles, ...(manager === "bun" ? bunFiles : [])];
  const main = manifest?.main ?? usual.find(has);
  if (main === undefined || main === null || !/^[\w@./-]+$/.test(main)) return null;
  const program = manager === "bun" && main.endsWith(".ts") ? "bun" : "node";
  return { command: `${program} ${main}`, why: manifest?.main === main ? "main of package.json" : `the file ${main}` };
}

/** The server that a project is written with, of those that need no more; null when there is none. */
export function serverPackageOf({ manifest }: Project): string | null {
  const found = [...serverPackages].find(([name]) => manifest?.dependencies.has(name));
  return found?.[1] ?? null;
}

/** Whether Next is told to leave a traced copy of the app. */
export function tracesApp({ framework, files, texts }: Project): boolean {
  if (framework?.name !== "Next.js") return false;
  const path = nextConfigs.find((name) => files.has(name));
  return path !== undefined && asksForStandalone(codeOf(texts.get(path) ?? ""));
}

const nextConfigs = ["next.config.js", "next.config.mjs", "next.config.cjs", "next.config.ts", "next.config.mts"];

/**
 * Whether Next's configuration asks for a traced copy of the app in its usual place. The text is read, not run:
 * a configuration that is put together elsewhere counts as one that does not ask.
 */
export const asksForStandalone = (config: string): boolean =>
  /\boutput["']?\s*:[^,;{}\n]{0,200}["'`]standalone["'`]/.test(config) && !/\bdistDir\b/.test(config);
