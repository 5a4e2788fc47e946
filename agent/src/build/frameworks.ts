import type { PackageJson } from "./packages.ts";

/** What is known of a framework, so that a manifest need not say it. Paths are relative to the app's directory. */
export type Framework = {
  name: string;
  /** Where a static build leaves the site, the likeliest first; may hold `*`. Empty when nothing is usual. */
  outputs: readonly string[];
  /** Starts the built server; null when the project has to say how. */
  start: string | null;
  /** What the server needs to know to run behind the platform's edge. */
  env: Readonly<Record<string, string>>;
  /** Directories that make the next build faster and are no part of the result. */
  caches: readonly string[];
};

/** SvelteKit compares a form's origin with the address that it thinks it has: https, unless told where to look. */
const svelteKitEnv = { PROTOCOL_HEADER: "x-forwarded-proto", HOST_HEADER: "x-forwarded-host" };

const known = (name: string, facts: Partial<Framework> = {}): Framework => ({
  name,
  outputs: ["dist"],
  start: null,
  env: {},
  caches: [],
  ...facts,
});

const nitro = { start: "node .output/server/index.mjs", outputs: [".output/public", "dist"] };

/**
 * By the packages that give a framework away. The first entry that fits counts: many frameworks are built on
 * those further down.
 */
const frameworks: readonly { packages: readonly string[]; framework: Framework }[] = [
  {
    packages: ["next"],
    framework: known("next", {
      outputs: ["out"],
      start: "next start",
      // It listens on the address of this name only, and the engine sets it to the container's.
      env: { HOSTNAME: "0.0.0.0" },
      caches: [".next/cache"],
    }),
  },
  { packages: ["nuxt"], framework: known("nuxt", nitro) },
  { packages: ["@solidjs/start"], framework: known("solid-start", nitro) },
  { packages: ["@tanstack/react-start", "@tanstack/solid-start"], framework: known("tanstack-start", nitro) },
  {
    packages: ["@sveltejs/kit"],
    framework: known("sveltekit", { outputs: ["build"], start: "node build", env: svelteKitEnv }),
  },
  {
    packages: ["@react-router/dev"],
    framework: known("react-router", {
      outputs: ["build/client"],
      start: "react-router-serve ./build/server/index.js",
    }),
  },
  {
    packages: ["@remix-run/dev"],
    framework: known("remix", { outputs: ["build/client", "public"], start: "remix-serve ./build/server/index.js" }),
  },
  {
    packages: ["astro"],
    framework: known("astro", { start: "node ./dist/server/entry.mjs", caches: ["node_modules/.astro"] }),
  },
  { packages: ["react-scripts"], framework: known("create-react-app", { outputs: ["build"] }) },
  { packages: ["gatsby"], framework: known("gatsby", { outputs: ["public"], caches: [".cache"] }) },
  { packages: ["@docusaurus/core"], framework: known("docusaurus", { outputs: ["build"] }) },
  {
    packages: ["vitepress"],
    framework: known("vitepress", { outputs: [".vitepress/dist", "docs/.vitepress/dist"] }),
  },
  { packages: ["@11ty/eleventy"], framework: known("eleventy", { outputs: ["_site"] }) },
  { packages: ["@nestjs/core"], framework: known("nest", { start: "node dist/main.js" }) },
  {
    packages: ["@angular/core"],
    framework: known("angular", { outputs: ["dist/*/browser", "dist/browser", "dist"], caches: [".angular/cache"] }),
  },
  { packages: ["@vue/cli-service"], framework: known("vue-cli") },
  { packages: ["vite"], framework: known("vite") },
];

/** Where a site is looked for when neither the manifest nor the framework tells. */
const usualOutputs = ["dist", "build", "out", "_site", "public"] as const;

/** The framework that a project is written with; null when none is known by its packages. */
export const detectFramework = (manifest: PackageJson | null): Framework | null =>
  frameworks.find(({ packages }) => packages.some((name) => manifest?.dependencies.has(name)))?.framework ?? null;

/** What a manifest says about a static build, with "" for what it leaves open. */
type Said = { command: string; output: string };

/**
 * How a site is built: the command, and the directories to look in for its result, the likeliest first.
 * Null when the files as they are packed are the site.
 *
 * A normalised manifest without a command has the output ".", and one with a command but no output has "dist":
 * so these two may be what nobody wrote, and give way to what the project itself tells.
 *
 * @param runScript turns the name of a package script into the command that runs it
 */
export function siteBuild(
  said: Said,
  manifest: PackageJson | null,
  runScript: (name: string) => string,
): { command: string; outputs: readonly string[] } | null {
  const framework = detectFramework(manifest);
  if (said.command !== "") {
    const isUsual = said.output === "dist" && framework !== null;
    return { command: said.command, outputs: isUsual ? unique([...framework.outputs, "dist"]) : [said.output] };
  }
  const isOpen = said.output === "" || said.output === ".";
  if (!isOpen || manifest?.scripts.has("build") !== true) return null;
  return { command: runScript("build"), outputs: framework?.outputs ?? usualOutputs };
}

/** A server as it is started, and what of the build it needs. */
export type ServerStart = {
  command: string;
  /** Whether Next's traced copy of the app is all that is needed. */
  standalone: boolean;
};

export type StartFacts = {
  has(name: string): boolean;
  /** Turns the name of a package script into the command that runs it. */
  runScript(name: string): string;
  /** Whether Next is told to leave a traced copy. */
  standalone: boolean;
  /** Whether installed programs are found in node_modules/.bin. */
  runsFromFolder: boolean;
};

/** Scripts named "start" that are for a developer's machine. */
const DEVELOPMENT = /^(?:astro|nuxt|nuxi|next|remix|react-router|vite)(?: +(?:dev|develop)\b.*)?$/;
const SIMPLE = /^[\w@%+:,./-]+(?: +[\w@%+:,./=-]+)*$/;
const RUNS_SCRIPT = /^(?:npm|pnpm|yarn|bun) +(?:run +([\w:.-]+)|(start))$/;

/**
 * How a server is started: as the manifest says, or as the project tells when it says nothing. Null when nothing
 * tells.
 *
 * @param said start command of the manifest; empty when there is none
 */
export function serverStart(said: string, manifest: PackageJson | null, facts: StartFacts): ServerStart | null {
  if (said !== "") return { command: scriptOf(said, manifest, facts) ?? said, standalone: false };
  if (facts.standalone) return { command: "node server.js", standalone: true };
  const command = startScript(manifest, facts) ?? detectFramework(manifest)?.start ?? mainFile(manifest, facts.has);
  return command === null ? null : { command, standalone: false };
}

function startScript(manifest: PackageJson | null, facts: StartFacts): string | null {
  const script = manifest?.scripts.get("start")?.trim();
  if (script === undefined || script === "" || DEVELOPMENT.test(script)) return null;
  const command = facts.runScript("start");
  return scriptOf(command, manifest, facts) ?? command;
}

/**
 * What a command of the kind "npm start" runs in the end. A package manager between the engine and the app takes
 * several times the memory of a small app, and does not pass every signal on. Null when the script needs more
 * than the names of installed programs.
 */
function scriptOf(command: string, manifest: PackageJson | null, { runsFromFolder }: StartFacts): string | null {
  const [, named, short] = RUNS_SCRIPT.exec(command.trim()) ?? [];
  const name = named ?? short;
  const script = name === undefined ? undefined : manifest?.scripts.get(name)?.trim();
  if (script === undefined || !runsFromFolder || !SIMPLE.test(script)) return null;
  return [`pre${name}`, `post${name}`].some((around) => manifest?.scripts.has(around)) ? null : script;
}

function mainFile(manifest: PackageJson | null, has: (name: string) => boolean): string | null {
  const main = manifest?.main ?? ["server.js", "index.js", "app.js", "server.mjs", "index.mjs"].find(has);
  return main === undefined || !/^[\w@./-]+$/.test(main) ? null : `node ${main}`;
}

/**
 * Whether Next's configuration asks for a traced copy of the app in its usual place. The text is read, not run:
 * a configuration that is put together elsewhere counts as one that does not ask.
 */
export const asksForStandalone = (config: string): boolean =>
  /\boutput["']?\s*:[^,;{}\n]*["'`]standalone["'`]/.test(config) && !/\bdistDir\b/.test(config);

const unique = (all: readonly string[]): string[] => [...new Set(all)];
