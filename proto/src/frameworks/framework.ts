import { COMMAND_CHARS_MAX } from "./commands.ts";
import type { PackageJson } from "./package-json.ts";
import type { Facts } from "./project.ts";
import { frameworks } from "./table.ts";

/** What is known of a framework, so that a manifest need not say it. Paths are relative to the app's directory. */
export type Framework = {
  name: string;
  /** Any of these packages gives it away. */
  packages: readonly string[];
  /** Scripts of `package.json` that build it, the likeliest first. */
  builds: readonly string[];
  /** Builds it where there is no such script. */
  buildProgram?: string;
  /** Commands, without the package manager around them, that start a server for development. */
  development?: RegExp;
  /** Those that only serve the files that a build left. */
  servesFiles?: RegExp;
  /** Scripts that start something else than what is built here, although it is a server. */
  startsElsewhere?: RegExp;
  /** Directories that make the next build faster and are no part of the result. */
  caches: readonly string[];
  /** What the server needs to know to run behind the platform's edge. */
  env: Readonly<Record<string, string>>;
  /** Where a build is told to leave its result: a flag of the command, or a setting; each with one group. */
  outputSaid?: readonly RegExp[];
  /** Variables without which it does not start. */
  needs?: readonly string[];
  /** What `*` in paths of the forms stands for; null when this project does not tell. */
  star?(facts: Facts, buildScript: string): string | null;
  /** How it can be used; the first that fits counts, and the last one always does. */
  forms: readonly [...Form[], Form];
};

/** One way to use a framework: it makes a site, or a server, or neither until somebody follows the cure. */
export type Form = {
  when?: Sign;
  /** What tells, for people. */
  because?: string;
  site?: {
    /** Where the build leaves the site, the likeliest first. */
    outputs: readonly string[];
    /** Goes before the scripts of the framework. */
    builds?: readonly string[];
    /** Whether the browser decides which page a path is, so that every path is the one page; or packages that do that. */
    spa?: true | readonly string[];
  };
  server?: {
    /** Starts what was built. */
    start: string;
    /** The directory in that, and the configuration that may name another one, in the group of `said`. */
    built?: { usual: string; config: RegExp; said: RegExp };
  };
  /** What to do when it can be neither, or to get the other. */
  cure?: string;
};

/** Everything that is named has to hold. */
export type Sign = {
  /** One of these packages is used: named in a configuration, or installed where no configuration names another such package. */
  uses?: readonly string[];
  /** One of these is installed. */
  has?: readonly string[];
  /** In the text of some configuration. */
  config?: RegExp;
  /** The path of some file. */
  file?: RegExp;
  /** The command that the build script runs. */
  build?: RegExp;
};

/** The framework that a project is written with, and how it is used; null when none is known by its packages. */
export function frameworkOf(
  facts: Facts,
  manifest: PackageJson,
  counts: (framework: Framework) => boolean = () => true,
): { framework: Framework; form: Form } | null {
  const framework = frameworks.find(
    (each) => each.packages.some((name) => manifest.dependencies.has(name)) && counts(each),
  );
  if (framework === undefined) return null;
  const form = framework.forms.find(({ when }) => when === undefined || holds(when, framework, facts, manifest));
  const star = framework.star?.(facts, buildScriptOf(framework, manifest) ?? "") ?? null;
  const usual = filled(form ?? framework.forms[framework.forms.length - 1] ?? {}, star);
  return { framework, form: withBuilt(usual, facts) };
}

/** What the build script says that would be run for a framework. */
export function buildScriptOf({ builds }: Framework, { scripts }: PackageJson): string | null {
  const script = scripts.get(builds.find((each) => scripts.has(each)) ?? "");
  return script === undefined || script.length > COMMAND_CHARS_MAX ? null : script;
}

function holds(sign: Sign, framework: Framework, facts: Facts, manifest: PackageJson): boolean {
  const config = configText(facts);
  const { uses, has, file, build } = sign;
  const installed = (name: string): boolean => manifest.dependencies.has(name);
  if (uses !== undefined) {
    const all = framework.forms.flatMap(({ when }) => when?.uses ?? []);
    const isNamed = (name: string): boolean => new RegExp(`["'\`]${name}(?:/[\\w-]+)?["'\`]`).test(config);
    const isUsed = all.some(isNamed) ? isNamed : installed;
    if (!uses.some(isUsed)) return false;
  }
  if (has !== undefined && !has.some(installed)) return false;
  if (sign.config !== undefined && !sign.config.test(config)) return false;
  if (file !== undefined && ![...facts.files].some((path) => file.test(path))) return false;
  return build === undefined || build.test(buildScriptOf(framework, manifest) ?? "");
}

/** All configurations in the directory itself, as code. */
export function configText({ texts }: Facts): string {
  const configs = [...texts].filter(([path]) => !path.includes("/") && isConfig(path));
  return configs.map(([, text]) => codeOf(text)).join("\n");
}

const isConfig = (path: string): boolean =>
  /(?:\.config\.[cm]?[jt]s|^angular\.json|^app\.json|^\.eleventy\.c?js)$/.test(path);

/** Nobody writes longer configurations by hand. */
const CONFIG_CHARS_MAX = 64 * 1024;

/** The start of a configuration, without comments. It is read, not run. */
export function codeOf(config: string): string {
  const text = config.slice(0, CONFIG_CHARS_MAX);
  const lastEnd = text.lastIndexOf("*/");
  const opening = /(?<=^|\s)\/\*|(?<=^|[\s,;{])\/\//g;
  const parts: string[] = [];
  let from = 0;
  for (let found = opening.exec(text); found !== null; found = opening.exec(text)) {
    const { index } = found;
    const isLine = found[0] === "//";
    if (!isLine && lastEnd < index + 2) continue;
    const end = isLine ? text.indexOf("\n", index) : text.indexOf("*/", index + 2) + 2;
    parts.push(text.slice(from, index));
    from = end === -1 ? text.length : end;
    opening.lastIndex = from;
  }
  return parts.join("") + text.slice(from);
}

/** The form that starts its server where the configuration says that the build leaves it. */
function withBuilt(form: Form, { texts }: Facts): Form {
  const built = form.server?.built;
  if (form.server === undefined || built === undefined) return form;
  const [, text = ""] = [...texts].find(([path]) => built.config.test(path)) ?? [];
  const path = pathInside(built.said.exec(codeOf(text))?.[1] ?? "");
  if (path === null) return form;
  return { ...form, server: { ...form.server, start: form.server.start.replace(built.usual, path) } };
}

/** A path below the project as it is written plainly; null for another one. */
export function pathInside(path: string): string | null {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.length === 0 || parts.includes("..") ? null : parts.join("/");
}

function filled(form: Form, star: string | null): Form {
  if (star === null) return form;
  const fill = (text: string): string => (star === "" ? text.replace("*/", "") : text.replace("*", star));
  return {
    ...form,
    ...(form.site && { site: { ...form.site, outputs: form.site.outputs.map(fill) } }),
    ...(form.server && { server: { ...form.server, start: fill(form.server.start) } }),
  };
}
