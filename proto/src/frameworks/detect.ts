import { limits } from "../limits.ts";
import { serverBuild, siteBuild } from "./build.ts";
import { lookThrough, purposeOf, runsElsewhere } from "./commands.ts";
import type { Facts } from "./facts.ts";
import { languageOf, notNode } from "./languages.ts";
import { type NamedPort, portOfCommand, portOfDockerfile, portOfSource } from "./port.ts";
import { type Project, readProject } from "./project.ts";
import { type ServerStart, serverPackageOf, serverStart } from "./start.ts";
import {
  isWorkspaceRoot,
  memberDirectories,
  memberPackages,
  readMember,
  withoutMembers,
  workspaceBuild,
} from "./workspace.ts";

export type AppType = "static" | "ssr";

/** An app as it would be deployed. */
export interface DetectedApp {
  /** Its directory; "." for the top. */
  rootDirectory: string;
  type: AppType;
  /** What it is written with, in a word for people; null when that is not known. */
  framework: string | null;
  /** Path of the Dockerfile that builds it, from its directory; null when none is needed. */
  dockerfile: string | null;
  /** Command that builds it; null when nothing is built. */
  build: string | null;
  /** Directory that a site is in afterwards; null for a server, and where only the build will tell. */
  output: string | null;
  /** Command that starts a server; null for a site, and for a Dockerfile, which says it itself. */
  start: string | null;
  /** Whether the build leaves a smaller copy of the app, that `start` starts; then the manifest must not name it. */
  standalone: boolean;
  /** That a server listens on; null for a site. */
  port: number | null;
  /** Whether the browser decides which page a path of the site is. */
  spa: boolean;
  /** Variables without which it does not start. */
  needs: readonly string[];
  /** What it was decided by, as sentences without a full stop. */
  why: readonly string[];
}

/** One of several apps that it could be. */
export interface Choice {
  label: string;
  flags: string;
  app: DetectedApp;
}

export type Detection =
  | { is: "app"; app: DetectedApp }
  /** A person has to say which. */
  | { is: "unclear"; question: string; choices: readonly Choice[] }
  /** Nothing that can be served as it is. */
  | { is: "refused"; problem: string; cure: string };

/** What somebody has decided already. */
export interface Wish {
  type?: AppType | undefined;
  root?: string | undefined;
}

/** What app a directory holds, and how it is built and started. */
export function detect(facts: Facts, { type, root = "." }: Wish = {}): Detection {
  if (root !== ".") return detectIn(facts, root, type);
  const members = memberDirectories(facts);
  const isTop = isWorkspaceRoot(facts);
  const top = detectIn(facts, ".", type);
  if (members.length === 0 || (!isTop && (type !== undefined || top.is !== "refused" || isProject(facts)))) return top;
  const choices = [
    ...(top.is === "app" && (top.app.framework !== null || top.app.type === "ssr") ? [choiceOf(top.app)] : []),
    ...members.flatMap((directory) => {
      const found = detectIn(facts, directory, type);
      if (found.is === "unclear") return found.choices.map(({ app, flags }) => ({ ...choiceOf(app), flags }));
      const counts =
        found.is === "app" && (type !== undefined || found.app.framework !== null || found.app.type === "ssr");
      return counts ? [choiceOf(found.app)] : [];
    }),
  ];
  const [only, ...others] = choices;
  const place = isTop ? "workspace" : "directory";
  if (only !== undefined && others.length === 0) {
    const isMember = only.app.rootDirectory !== ".";
    const why = isMember
      ? [`${only.app.rootDirectory} has the only app of this ${place}`, ...only.app.why]
      : only.app.why;
    return { is: "app", app: { ...only.app, why } };
  }
  if (only !== undefined) return { is: "unclear", question: `There are several apps in this ${place}`, choices };
  const refusals = members.flatMap((directory) => {
    const found = detectIn(facts, directory, type);
    return found.is === "refused" && readMember(facts, directory).framework !== null
      ? [`${directory}: ${found.problem} ${found.cure}`]
      : [];
  });
  if (top.is === "refused" && !isTop && refusals.length === 0) return top;
  return {
    is: "refused",
    problem: ["This is the top of several packages, and none of them is an app that is known.", ...refusals].join(
      "\n  ",
    ),
    cure: "Name the directory of the app, and what it is: svc init --root apps/web --type ssr",
  };
}

/** Whether a directory is a project by itself, also when it cannot be served, whatever lies in directories below it. */
const isProject = (facts: Facts): boolean => readProject(facts).framework !== null || languageOf(facts.files) !== null;

const choiceOf = (app: DetectedApp): Choice => ({
  label: `${app.rootDirectory} (${[app.framework, typeName(app.type)].filter((each) => each !== null).join(", ")})`,
  flags: `--root ${app.rootDirectory}`,
  app,
});

export const typeName = (type: AppType): string => (type === "static" ? "a static site" : "a server");

function detectIn(facts: Facts, rootDirectory: string, type: AppType | undefined): Detection {
  const directory = rootDirectory === "." ? "" : rootDirectory;
  const own = isWorkspaceRoot(facts, directory) ? withoutMembers(facts, directory) : facts;
  const project = readMember(own, directory);
  const missing = missingSiblings(facts, project);
  if (missing.length > 0)
    return {
      is: "refused",
      problem: `It is made from packages of a workspace that are not below this directory: ${missing.join(", ")}`,
      cure: "Run svc init at the top of the workspace, and name this directory: svc init --root apps/web",
    };
  const found = type === undefined ? guess(project) : asked(project, type);
  if (found.is === "refused") return found;
  const there = (app: DetectedApp): DetectedApp => ({
    ...app,
    rootDirectory,
    build: app.build === null || directory === "" ? app.build : workspaceBuild(facts, directory, project, app.build),
  });
  if (found.is === "app") return { is: "app", app: there(found.app) };
  const flags = directory === "" ? "" : `--root ${directory} `;
  const choices = found.choices.map((each) => ({ ...each, flags: `${flags}${each.flags}`, app: there(each.app) }));
  return { ...found, choices };
}

/** Packages of a workspace that a project depends on and that would not be packed with it. */
function missingSiblings(facts: Facts, { manifest }: Project): string[] {
  const needed = [...(manifest?.siblings ?? [])];
  if (needed.length === 0) return [];
  const there = memberPackages(facts);
  return needed.filter((name) => !there.some((each) => each.name === name));
}

/** As somebody said that it is. */
function asked(project: Project, type: AppType): Detection {
  if (type === "static") return { is: "app", app: aSite(project, []) };
  const start = startOf(project);
  if (!("problem" in start)) return { is: "app", app: aServer(project, start, []) };
  if (project.has("Dockerfile")) return { is: "app", app: ofDockerfile(project) };
  return notStarted(start);
}

const notStarted = ({ problem }: { problem: string }): Detection => ({
  is: "refused",
  problem,
  cure: "Write how it starts into package.json, then run svc init again",
});

function guess(project: Project): Detection {
  const { manifest, files } = project;
  const found = manifest === null ? ofPlainFiles(project) : ofPackage(project);
  const isSureOfPackage = manifest !== null && found?.is === "app" && project.framework !== null;
  if (project.has("Dockerfile")) {
    if (!isSureOfPackage) return { is: "app", app: ofDockerfile(project) };
    const spare = "the Dockerfile is not used: build.dockerfile in the manifest would name it";
    return { is: "app", app: { ...found.app, why: [...found.app.why, spare] } };
  }
  const language = languageOf(files);
  if (language !== null && (manifest === null || language.serves || found?.is === "refused")) {
    const isPage = manifest === null && project.has("index.html") && !language.serves;
    if (!isPage && !(found?.is === "app" && found.app.type === "ssr")) return { is: "refused", ...notNode(language) };
  }
  return found ?? nothingKnown(project);
}

function nothingKnown({ files }: Project): Detection {
  return {
    is: "refused",
    problem: files.size === 0 ? "There is nothing in this directory" : "Nothing here tells what to deploy",
    cure: "svc deploys a directory with an index.html, a Node project (package.json) or anything with a Dockerfile; `svc init --type static` publishes the files as they are, `svc init --template ociimage` an image",
  };
}

/** A directory without a package.json; null when nothing in it tells. */
function ofPlainFiles(project: Project): Detection | null {
  const start = startOf(project);
  const site = ["", "public/", "dist/", "build/"].find((directory) => project.has(`${directory}index.html`));
  const files = site === undefined ? null : filesAsTheyAre(project, site);
  if ("problem" in start) return files && { is: "app", app: files };
  const server = aServer(project, start, []);
  if (files === null) return { is: "app", app: server };
  // Scripts of a page have all the other usual names as well.
  if (!/ server\.m?js$/.test(start.command)) return { is: "app", app: files };
  return eitherOf("There is a page and a server", `${site}index.html`, files, server);
}

const eitherOf = (question: string, page: string, site: DetectedApp, server: DetectedApp): Detection => ({
  is: "unclear",
  question,
  choices: [
    { label: `A static site (${page})`, flags: "--type static", app: site },
    { label: `A server (${server.start})`, flags: "--type ssr", app: server },
  ],
});

function filesAsTheyAre(project: Project, directory: string): DetectedApp {
  const output = directory === "" ? "." : directory.slice(0, -1);
  return { ...noApp, type: "static", framework: frameworkName(project), output, why: [`${directory}index.html`] };
}

function ofPackage(project: Project): Detection {
  const { manifest, framework, form } = project;
  const start = startOf(project);
  const script = manifest?.scripts.get("start") ?? "";
  const purpose = script === "" ? null : purposeOf(script, manifest);
  if (framework !== null) {
    const because = `package.json depends on ${framework.packages.find((name) => manifest?.dependencies.has(name))}`;
    const why = [because, ...(form?.because === undefined ? [] : [form.because])];
    // Whoever starts a server beside the framework has written one.
    const startsOwn = purpose === "server" && !isOwnProgram(project, script) && !runsElsewhere(script);
    const makesServer =
      form?.server !== undefined || startsOwn || (form?.site !== undefined && mainServer(project) === "there");
    if (makesServer && !("problem" in start)) return { is: "app", app: aServer(project, start, why) };
    if (form?.site !== undefined && form.server === undefined && !isOnlyCured(project)) {
      const site = aSite(project, why);
      if (mainServer(project) !== "built" || "problem" in start) return { is: "app", app: site };
      const question = `There is a site of ${framework.name}, and a server that the build may leave`;
      return eitherOf(question, framework.name, site, aServer(project, start, why));
    }
    return {
      is: "refused",
      problem: `${framework.name} (${because}) leaves nothing here that can be served`,
      cure: form?.cure ?? "",
    };
  }
  const isServer =
    (purpose === "server" && !runsElsewhere(script)) || mainServer(project) !== null || isCurrentMain(project);
  if (isServer)
    return "problem" in start ? notStarted(start) : { is: "app", app: aServer(project, start, ["package.json"]) };
  const page = ["", "src/", "public/", "static/", "app/"].find((directory) => project.has(`${directory}index.html`));
  if (manifest?.scripts.has("build") === true && (page !== undefined || purpose === "files"))
    return { is: "app", app: aSite(project, ["package.json has a build script and starts no server"]) };
  if (manifest?.scripts.has("build") !== true && (page === "" || page === "public/"))
    return { is: "app", app: filesAsTheyAre(project, page) };
  return {
    is: "refused",
    problem: "package.json names no framework that is known, and no start script that serves visitors",
    cure: "Write a start script (`node server.js`) into package.json for a server, or run `svc init --type static` for a site and name its directory in build.output",
  };
}

const startOf = (project: Project): ServerStart | { problem: string } => serverStart({ build: "", start: "" }, project);

/** The main file of a project that is written with a server: it is there, or its build may leave it; null otherwise. */
const mainServer = (project: Project): "there" | "built" | null =>
  serverPackageOf(project) === null ? null : mainFileOf(project);

/** Whether the main file of a package is one that is started, and not what other packages would import. */
const isCurrentMain = (project: Project): boolean =>
  project.manifest?.scripts.has("build") !== true &&
  /^(?:server|app)\./.test(project.manifest?.main ?? "") &&
  mainFileOf(project) === "there";

function mainFileOf(project: Project): "there" | "built" | null {
  const start = startOf(project);
  const [, file] =
    "problem" in start ? [] : (/^(?:node|bun)(?: +run)? +(?:\.\/)?([\w@./-]+)$/.exec(start.command) ?? []);
  if (file === undefined) return null;
  if ([file, `${file}.js`, `${file}/index.js`].some(project.has)) return "there";
  const isBuilt = project.manifest?.scripts.has("build") === true && /^(?:dist|build|lib|out)(?:\/|$)/.test(file);
  return isBuilt ? "built" : null;
}

/** Whether the form of a framework is a site only once its cure was followed. */
const isOnlyCured = ({ form }: Project): boolean =>
  form?.cure !== undefined && form.because === undefined && form.server === undefined;

function isOwnProgram({ framework, manifest }: Project, script: string): boolean {
  const program = framework?.buildProgram?.split(" ")[0];
  const first = lookThrough(script, manifest).command.split(" ")[0];
  return program !== undefined && program !== "node" && first === program;
}

const noApp: DetectedApp = {
  rootDirectory: ".",
  type: "static",
  framework: null,
  dockerfile: null,
  build: null,
  output: null,
  start: null,
  standalone: false,
  port: null,
  spa: false,
  needs: [],
  why: [],
};

const frameworkName = (project: Project): string | null => project.framework?.name ?? serverPackageOf(project);

function aSite(project: Project, why: readonly string[]): DetectedApp {
  const site = siteBuild({ command: "", output: null }, project);
  if (site === null) return { ...noApp, framework: frameworkName(project), output: ".", why };
  const [output, ...others] = site.outputs;
  const isKnown = output !== undefined && !output.includes("*") && (project.framework !== null || others.length === 0);
  const spa = project.form?.site?.spa ?? [];
  const router = spa === true ? null : spa.find((name) => project.manifest?.dependencies.has(name));
  return {
    ...noApp,
    framework: frameworkName(project),
    build: site.command,
    output: isKnown ? output : null,
    spa: spa === true || router != null,
    why: [...why, ...(router == null ? [] : [`${router} decides in the browser which page a path is`])],
  };
}

function aServer(project: Project, start: ServerStart, why: readonly string[]): DetectedApp {
  const build = serverBuild("", project);
  const { port, why: whyPort } = portOf(project, start.command);
  return {
    ...noApp,
    type: "ssr",
    framework: frameworkName(project),
    build: build === "" ? null : build,
    start: start.command,
    standalone: start.standalone,
    port,
    needs: project.framework?.needs ?? [],
    why: [...why, start.note === null ? `started by ${start.why}` : start.note.replace(/\.$/, ""), ...whyPort],
  };
}

function ofDockerfile(project: Project): DetectedApp {
  const found = portOfDockerfile(project.texts.get("Dockerfile") ?? "");
  return {
    ...noApp,
    type: "ssr",
    framework: "Dockerfile",
    dockerfile: "Dockerfile",
    port: found?.port ?? limits.appPortDefault,
    why: [
      "the Dockerfile",
      found === null ? "it exposes no port, so it has to listen on that in PORT" : `port ${found.port}: ${found.why}`,
    ],
  };
}

function portOf(project: Project, command: string): { port: number; why: string[] } {
  const found = portOfCommand(command) ?? portOfEntry(project, command);
  if (found === null) return { port: limits.appPortDefault, why: [] };
  return { port: found.port, why: [`port ${found.port}: ${found.why}`] };
}

/** A port in the source of what a command starts; a framework's own server reads PORT. */
function portOfEntry({ framework, form, texts }: Project, command: string): NamedPort | null {
  if (framework !== null && form?.server?.start === command && framework.name !== "Elysia") return null;
  const [, file] = /^(?:node|bun)(?: +run)?(?: +--[\w-]+(?:=\S+)?)* +(?:\.\/)?([\w@./-]+)$/.exec(command) ?? [];
  if (file === undefined) return null;
  const base = file.replace(/\.[cm]?[jt]s$/, "").replace(/^(?:dist|build|lib|out)\//, "");
  const path = [...texts.keys()]
    .sort()
    .find(
      (each) => each === file || each.replace(/^src\//, "").replace(/\.[cm]?[jt]s$/, "") === base.replace(/^src\//, ""),
    );
  return path === undefined ? null : portOfSource(texts.get(path) ?? "", path);
}
