import { createHmac } from "node:crypto";

/** Variables by name. */
export type Variables = Readonly<Record<string, string>>;

/** Id under which a Dockerfile of a project finds all its variables at once, as a shell script. */
const allSecret = "svc-env";
/** Where steps of a generated Dockerfile find theirs. */
export const envPath = "/run/svc-build/env";
/** Runs the command behind it with these. */
export const withEnv = `. ${envPath}; exec /bin/sh -c "$0"`;

/** What a shell keeps in these is its own business, and programs of the build are found by the last. */
const notExported = new Set([
  ...["BASHOPTS", "BASH_VERSINFO", "EUID", "IFS", "LINENO", "OLDPWD", "OPTIND", "PPID", "PWD", "SHELLOPTS", "UID"],
  "PATH",
]);

/**
 * A script that gives a shell exactly these variables, for all that follows in it. Sorted, so that equal variables
 * make equal scripts.
 */
export const exportScript = (variables: Variables): string =>
  Object.keys(variables)
    .filter((name) => !notExported.has(name))
    .sort()
    .map((name) => `export ${name}=${quoted(variables[name] ?? "")}\n`)
    .join("");

/** In whichever quotes it is shorter: a value of nothing but quotes must not grow to four times its size. */
function quoted(value: string): string {
  const single = `'${value.replaceAll("'", "'\\''")}'`;
  const double = `"${value.replaceAll(/[\\$`"]/g, "\\$&")}"`;
  return single.length <= double.length ? single : double;
}

/**
 * The id of a secret whose content is `variables`. What a cached step is recognised by holds the id of a secret, not
 * its content: so the id changes with the content, and tells nothing about it to whoever does not have `key`.
 *
 * @param key known to this node alone
 */
export const secretId = (name: string, variables: Variables, { key, namespace }: IdScope): string => {
  const content = JSON.stringify([namespace, name, Object.entries(variables).sort(([a], [b]) => (a < b ? -1 : 1))]);
  return `${name}-${createHmac("sha256", key).update(content).digest("hex").slice(0, 32)}`;
};

export interface IdScope {
  key: Buffer;
  namespace: string;
}

/** Secrets of one build, by the ids that its Dockerfile has for them. */
export type BuildSecrets = ReadonlyMap<string, Buffer>;

/** Which secret each kind of step of a generated Dockerfile gets; null: none. */
export interface StepSecrets {
  install: string | null;
  build: string | null;
}

/**
 * What steps of a generated Dockerfile get. A build command gets every variable. Installing gets those that its
 * settings name or that are settings themselves, so that it is repeated for nothing else, and so that packages of
 * others see no more than they need; it never gets NODE_ENV, with which it would leave out what builds the app.
 *
 * @param settings what the package manager reads besides manifests and lock files; null: it runs what may read anything
 */
export function generatedSecrets(
  variables: Variables,
  settings: string | null,
  scope: IdScope,
): { steps: StepSecrets; secrets: BuildSecrets } {
  const { NODE_ENV: _, ...others } = variables;
  const forInstall =
    settings === null
      ? others
      : Object.fromEntries(Object.entries(others).filter(([name]) => isSetting(name) || names(settings, name)));
  const secrets = new Map<string, Buffer>();
  const add = (kind: string, some: Variables): string | null => {
    const script = exportScript(some);
    if (script === "") return null;
    const id = secretId(kind, some, scope);
    secrets.set(id, Buffer.from(script));
    return id;
  };
  return { steps: { install: add("svc-install-env", forInstall), build: add(allSecret, variables) }, secrets };
}

const isSetting = (name: string): boolean => /^(?:(?:npm|pnpm)_config_|yarn_|bun_config_)/i.test(name);

const names = (text: string, name: string): boolean => new RegExp(`(?<!\\w)${name}(?!\\w)`).test(text);

/**
 * What a project's own Dockerfile may mount: each variable under its name, and all of them as a script.
 *
 * @returns the id of this build for each id that the Dockerfile may name, and the secrets under these
 */
export function ownSecrets(
  variables: Variables,
  scope: IdScope,
): { ids: ReadonlyMap<string, string>; secrets: BuildSecrets } {
  const ids = new Map<string, string>();
  const secrets = new Map<string, Buffer>();
  const add = (name: string, some: Variables, content: string): void => {
    const id = secretId(name, some, scope);
    ids.set(name, id);
    secrets.set(id, Buffer.from(content));
  };
  const all = Object.entries(variables);
  for (const [name, value] of all) add(name, { [name]: value }, value);
  if (all.length > 0) add(allSecret, variables, exportScript(variables));
  return { ids, secrets };
}
