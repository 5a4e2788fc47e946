import { commandCharsMax } from "./command-length.ts";
import type { Facts } from "./facts.ts";
import type { Form, Framework, Sign } from "./form.ts";
import type { PackageJson } from "./package-json.ts";
import { frameworks } from "./table.ts";

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
  return script === undefined || script.length > commandCharsMax ? null : script;
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
const configCharsMax = 64 * 1024;

/** The start of a configuration, without comments. It is read, not run. */
export function codeOf(config: string): string {
  const text = config.slice(0, configCharsMax);
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
