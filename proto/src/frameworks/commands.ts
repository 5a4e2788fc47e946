import { commandCharsMax } from "./command-length.ts";
import type { PackageJson } from "./package-json.ts";
import { frameworks } from "./table.ts";

/** What a command is for: a developer's machine, serving the files of a build, or anything else. */
export type Purpose = "development" | "files" | "server";
/** Commands of no framework. */
const developmentCommands = [
  /^nodemon\b/,
  /^ts-node-dev\b/,
  /^tsnd\b/,
  /^(?:webpack|rspack) +(?:serve|dev|s)\b/,
  /^(?:webpack-dev-server|browser-sync|live-server|wrangler|netlify|vercel|firebase)\b(?! +(?:build|deploy))/,
  /^(?:tsc|esbuild|rollup|tsup|swc)\b.* (?:-w|--watch)\b/,
];
const fileServer = /^(?:serve|http-server|sirv|sirv-cli|superstatic)\b/;
/** Runs a script somewhere else in a workspace. */
const elsewhere =
  /^(?:turbo|nx|lerna|wireit|moon|rush)\b|^(?:npm|pnpm|yarn|bun)\b.* (?:-w|-ws|--workspaces?|--filter|-F|-r|--recursive|-C|--prefix|--cwd)\b|^yarn +workspaces?\b/;

/** What a command of a package script is for. Of several in a row all are looked at. */
export function purposeOf(command: string, manifest: PackageJson | null): Purpose {
  const all = commandsOf(command, manifest).map(bare);
  if (all.some(isDevelopment)) return "development";
  return servesFiles((all[all.length - 1] ?? []).join(" ")) ? "files" : "server";
}

/** Programs whose packages have another name. */
const packages: Readonly<Record<string, string>> = {
  dotenv: "dotenv-cli",
  "remix-serve": "@remix-run/serve",
  "react-router-serve": "@react-router/serve",
  fastify: "fastify-cli",
  "run-p": "npm-run-all",
  "run-s": "npm-run-all",
  strapi: "@strapi/strapi",
  tsc: "typescript",
};

/** Names of the packages whose programs a command runs, as far as its words tell. */
export function programsOf(command: string, manifest: PackageJson | null): string[] {
  const said = commandsOf(lookThrough(command, manifest).command, manifest).flat();
  // Options and variables name programs behind a sign: --import=tsx.
  const words = new Set(said.flatMap((word) => word.split(/[\s=]+/)));
  const named = [...words].flatMap((word) => {
    const name = word.replace(/^(?:\.\/)?node_modules\/(?:\.bin\/)?/, "");
    const [own = ""] = /^(?:@[\w.-]+\/)?[\w.-]+/.exec(name) ?? [];
    return [name, own, packages[name] ?? ""];
  });
  return [...new Set(named.filter((name) => name !== ""))];
}

/** Whether a command runs the scripts of other packages of a workspace. */
export const runsElsewhere = (command: string): boolean =>
  partsOf(command).some((part) => elsewhere.test(bare(wordsOf(part)).join(" ")));

function isDevelopment(words: readonly string[]): boolean {
  const text = words.join(" ");
  const isKnown = developmentCommands.some((each) => each.test(text));
  return isKnown || watches(words) || frameworks.some(({ development }) => development?.test(text) === true);
}

const servesFiles = (text: string): boolean =>
  fileServer.test(text) || frameworks.some((framework) => framework.servesFiles?.test(text) === true);

const runsAFile: readonly string[] = ["node", "bun", "deno", "tsx", "ts-node"];
const watchFlags: readonly string[] = ["--watch", "--watch-path", "--watch-hmr", "--hot"];
/** Options of theirs whose value is a word of its own. */
const flagWithValue =
  /^(?:-r|--require|--preload|--import|--loader|--experimental-loader|--env-file(?:-if-exists)?|-C|--conditions|--tsconfig|-P|--project)$/;

/** Whether a program that runs a file starts it anew when it changes. What comes after the file is the file's own. */
function watches([program = "", ...words]: readonly string[]): boolean {
  if (!runsAFile.includes(program)) return false;
  const rest = words.filter((_, index) => !flagWithValue.test(words[index - 1] ?? ""));
  const file = rest.findIndex((word) => !word.startsWith("-") && word !== "run");
  if (program === "tsx" && rest[file] === "watch") return true;
  const options = file === -1 ? rest : rest.slice(0, file);
  return options.some((word) => watchFlags.includes(word.split("=", 1)[0] ?? ""));
}

/** The commands of a line of shell: what is in quotes is not looked into. */
const partsOf = (command: string): string[] =>
  command.length > commandCharsMax
    ? []
    : (command.match(/(?:[^"'&|;\n]|"[^"]*"|'[^']*'|["'])+/g) ?? [])
        .map((part) => part.trim())
        .filter((part) => part !== "");

/** The words of a command, without their quotes. */
const wordsOf = (part: string): string[] =>
  (part.match(/(?:[^\s"']|"[^"]*"|'[^']*'|["'])+/g) ?? []).map((word) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"),
  );

/** Package scripts that are looked through for one command. */
export const scriptsMax = 8;

/** All commands that one comes to, as their words: package scripts are looked through, each of them once. */
function commandsOf(command: string, manifest: PackageJson | null, seen = new Set<string>()): string[][] {
  return partsOf(command).flatMap((part) => {
    const words = wordsOf(part);
    const own = bare(words);
    const inside = runBy(own);
    // What runs several at once is none of them: it comes last.
    if (inside.length > 0) return [...inside.flatMap((each) => commandsOf(each, manifest, seen)), words];
    const name = scriptRun(own, manifest)?.name;
    if (name === undefined || seen.has(name) || seen.size === scriptsMax) return [words];
    seen.add(name);
    return [words, ...commandsOf(manifest?.scripts.get(name) ?? "", manifest, seen)];
  });
}

/** The lines of shell that a program is given to run. */
function runBy([program = "", ...words]: readonly string[]): string[] {
  if (program === "sh" || program === "bash") {
    const option = words.findIndex((word) => /^-[a-z]*c$/.test(word));
    return option === -1 ? [] : words.slice(option + 1, option + 2);
  }
  const isOption = (word: string): boolean => word.startsWith("-");
  if (["run-p", "run-s", "npm-run-all"].includes(program))
    return words.filter((word) => !isOption(word)).map((name) => `npm run ${name}`);
  if (program !== "concurrently") return [];
  const hasValue = /^(?:-n|--names|-c|--prefix-colors|-p|--prefix)$/;
  return words
    .filter((word, index) => !isOption(word) && !hasValue.test(words[index - 1] ?? ""))
    .map((word) => word.replace(/^(npm|pnpm|yarn|bun):/, "$1 run "));
}

/** A command without what only prepares it: variables, and programs that find or run another one. */
function bare(words: readonly string[]): string[] {
  let rest = [...words];
  for (let first = preparing(rest); first > 0 && first < rest.length; first = preparing(rest)) rest = rest.slice(first);
  const inFolder = /^(?:\.\/)?node_modules\/\.bin\//;
  if (rest[0] === "node" && inFolder.test(rest[1] ?? "")) rest = rest.slice(1);
  const program = (rest[0] ?? "").replace(inFolder, "");
  return [program === "@11ty/eleventy" ? "eleventy" : program, ...rest.slice(1)];
}

/** How many words at the start of a command only prepare it. */
function preparing([first = "", second = "", ...others]: readonly string[]): number {
  if (/^[A-Za-z_]\w*=/.test(first) || ["cross-env", "cross-env-shell", "env", "exec"].includes(first)) return 1;
  if (["npx", "bunx", "pnpx"].includes(first))
    return ["-y", "--yes", "--no-install", "--no", "--bun"].includes(second) ? 2 : 1;
  if (["pnpm", "yarn", "npm", "bun"].includes(first) && ["exec", "dlx", "x"].includes(second))
    return others[0] === "--" ? 3 : 2;
  // 0 where the two dashes are missing.
  if (first === "dotenv" || first === "dotenvx") return ["", second, ...others].indexOf("--") + 1;
  return 0;
}

const simple = /^[\w@%+:,./-]+(?: +[\w@%+:,./=-]+)*$/;

/** What a command of the kind "npm start" comes to. */
export interface LookedThrough {
  /** The text of the last script, or the command itself where it runs none. */
  command: string;
  /** Names of the scripts on the way. */
  scripts: readonly string[];
  /** That of them which would be run again after the last one; null where it ends. */
  again: string | null;
  /**
   * Whether it can be run without the package manager: nothing runs before or after it, nothing is handed over, and
   * it needs no more than the names of installed programs.
   */
  direct: boolean;
}

/** Follows package scripts that only run another one. */
export function lookThrough(command: string, manifest: PackageJson | null): LookedThrough {
  const scripts: string[] = [];
  let at = command.trim();
  let again: string | null = null;
  let direct = true;
  while (scripts.length < scriptsMax) {
    const run = isOne(at) ? scriptRun(wordsOf(at), manifest) : null;
    const script = manifest?.scripts.get(run?.name ?? "")?.trim() ?? "";
    if (run === null || script === "" || script.length > commandCharsMax) break;
    if (scripts.includes(run.name)) {
      again = run.name;
      break;
    }
    const around = [`pre${run.name}`, `post${run.name}`].some((name) => manifest?.scripts.has(name));
    direct &&= !around && !run.hasArguments;
    scripts.push(run.name);
    at = script;
  }
  return { command: at, scripts, again, direct: direct && isOne(at) && simple.test(at) };
}

/** Whether a line of shell is one command, as far as can be told. */
const isOne = (command: string): boolean => command.length <= commandCharsMax && !/[&|;<>\n]/.test(command);

/** The script that a command runs, and whether it is given arguments; null when it is something else. */
function scriptRun(
  words: readonly string[],
  manifest: PackageJson | null,
): { name: string; hasArguments: boolean } | null {
  const [manager = "", ...all] = words;
  if (!["npm", "pnpm", "yarn", "bun"].includes(manager)) return null;
  const rest = withoutFlags(all);
  const saysRun = rest[0] === "run" || rest[0] === "run-script";
  const [name, ...others] = saysRun ? withoutFlags(rest.slice(1)) : rest;
  if (name === undefined || !/^[\w:.@-]+$/.test(name) || !manifest?.scripts.has(name)) return null;
  // Without "run" npm knows a few names only, and Bun takes the name of a file.
  if (!saysRun && manager === "npm" && !["start", "stop", "test", "restart"].includes(name)) return null;
  return { name, hasArguments: others.length > 0 };
}

/** What comes after options that change nothing about which script is run. */
function withoutFlags(words: readonly string[]): readonly string[] {
  const first = words.findIndex((word) => !["-s", "--silent", "--if-present"].includes(word));
  return first === -1 ? [] : words.slice(first);
}
