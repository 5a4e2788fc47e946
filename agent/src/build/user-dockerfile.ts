import { normaliseRegistry } from "@svc/proto";
import { expandWord } from "./expand.ts";
import { type Instruction, parseDockerfile, parseJsonList, shellWords } from "./instructions.ts";

/** A user's Dockerfile as it is built, or why it is not. */
export type Rewritten =
  | {
      text: string;
      /** For each line of `text` the line of the user's file, counted from 1. */
      lines: readonly number[];
      /** Images that stages start from, as the engine looks them up. */
      baseImages: readonly string[];
    }
  | { refuse: string };

export type RewriteOptions = {
  cacheNamespace: string;
  /** Whether RUN steps get the operator's CA bundle. */
  hasCaBundle: boolean;
  /** Whether the engine's own parser knows here-documents. */
  hasDocuments: boolean;
  /** Host of the cluster's own registry: images of other projects are there. */
  registryHost: string;
  /** Such as `linux/amd64`. */
  platform: string;
  /** Secrets that the project has: the id of this build for each that a step may name. */
  secretIds: ReadonlyMap<string, string>;
};

/** Id of the secret that holds the CA bundle, and where RUN steps find it. */
export const CA_SECRET = "svc-ca";
const CA_PATH = "/run/svc-build/ca.pem";
/** Variables by which tools find CAs. As arguments they are seen by RUN steps and are not in the image. */
const CA_VARIABLES = [
  "NODE_EXTRA_CA_CERTS",
  "npm_config_cafile",
  "SSL_CERT_FILE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "PIP_CERT",
  "REQUESTS_CA_BUNDLE",
];

const OWN_SYNTAX = /^docker(?:\.io)?\/dockerfile(?::1(?:\.\d+){0,2}(?:-labs)?)?$/;
const MOUNT_TYPES = new Set(["bind", "cache", "tmpfs", "secret", "ssh"]);
/** A value that means the same to every parser. */
const PLAIN_FLAG = /^[\x21-\x7e]+$/;

/**
 * Makes a user's Dockerfile safe to build beside others: its cache mounts are kept to one namespace, the parser
 * is the engine's own, and nothing is fetched by the engine itself but base images from public registries.
 * Instructions come out on one line each, so that the engine reads exactly what was looked at here.
 */
export function rewriteDockerfile(text: string, options: RewriteOptions): Rewritten {
  const parsed = parseDockerfile(text);
  if ("refuse" in parsed) return parsed;
  const syntax = parsed.directives.get("syntax");
  if (syntax !== undefined && !OWN_SYNTAX.test(syntax)) {
    return {
      refuse: `The Dockerfile names the syntax ${JSON.stringify(syntax.slice(0, 100))}. Only the built-in one is available: remove the line.`,
    };
  }
  // With this as the first line and a blank one behind it no other directive counts, however it is written.
  const out: string[] = [`# escape=${parsed.escapeMark}`, ""];
  const lines: number[] = [1, 1];
  const emit = (text: string, line: number): void => {
    out.push(text);
    lines.push(line);
  };
  const context: Context = {
    options,
    escapeMark: parsed.escapeMark,
    args: predefined(options.platform),
    stages: new Set(),
    baseImages: new Set(),
    inStage: false,
  };
  for (const instruction of parsed.instructions) {
    const done = rewriteInstruction(instruction, context);
    if ("refuse" in done) return { refuse: `Line ${instruction.line} of the Dockerfile: ${done.refuse}` };
    emit(done.text, instruction.line);
    for (const [index, document] of instruction.documents.entries()) emit(document, instruction.line + index + 1);
    if (instruction.name === "FROM" && options.hasCaBundle) {
      for (const name of CA_VARIABLES) emit(`ARG ${name}=${CA_PATH}`, instruction.line);
    }
  }
  if (!context.inStage) return { refuse: "The Dockerfile has no FROM instruction." };
  return { text: `${out.join("\n")}\n`, lines, baseImages: [...context.baseImages] };
}

type Context = {
  options: RewriteOptions;
  escapeMark: string;
  /** Arguments in front of the first stage, which FROM may use. */
  args: Map<string, string>;
  stages: Set<string>;
  baseImages: Set<string>;
  inStage: boolean;
};
type Done = { text: string } | { refuse: string };

const predefined = (platform: string): Map<string, string> => {
  const [os = "", arch = ""] = platform.split("/");
  return new Map(
    ["BUILD", "TARGET"].flatMap((kind) => [
      [`${kind}PLATFORM`, platform],
      [`${kind}OS`, os],
      [`${kind}ARCH`, arch],
      [`${kind}VARIANT`, ""],
    ]),
  );
};

function rewriteInstruction(instruction: Instruction, context: Context): Done {
  const { name, flags, rest, documents } = instruction;
  if (flags.some((flag) => !PLAIN_FLAG.test(flag) || /["'\\`]/.test(flag))) {
    return { refuse: `write the options of ${name} without quotes and escapes.` };
  }
  if (documents.length > 0 && !context.options.hasDocuments) {
    return { refuse: "this platform's container engine does not know here-documents (<<): put the text in a file." };
  }
  switch (name) {
    case "FROM":
      return rewriteFrom(instruction, context);
    case "ARG":
      if (!context.inStage) return noteArguments(rest, context);
      break;
    case "RUN":
      return rewriteRun(instruction, context);
    case "ADD":
      return rewriteAdd(instruction);
    case "COPY":
      return rewriteCopy(instruction, context);
    case "ONBUILD":
      return { refuse: "ONBUILD is not available: an app's image is not built upon." };
  }
  return { text: `${name} ${rest}` };
}

function rewriteFrom({ flags, rest }: Instruction, context: Context): Done {
  const words = shellWords(rest);
  const image = expandWord(words[0] ?? "", context.args, context.escapeMark);
  if (image === null) return { refuse: "FROM may only use variables as $NAME, or with braces and a default." };
  const problem = checkImage(image, context);
  if (problem !== null) return { refuse: problem };
  for (const flag of flags) {
    const platform = flag.startsWith("platform=")
      ? expandWord(flag.slice("platform=".length), context.args, context.escapeMark)
      : null;
    if (platform !== context.options.platform) {
      return { refuse: `builds here are for ${context.options.platform}: leave --platform out of FROM.` };
    }
  }
  if (image !== "scratch" && !context.stages.has(image.toLowerCase())) context.baseImages.add(image);
  context.inStage = true;
  if (words[1]?.toUpperCase() === "AS" && words[2] !== undefined) context.stages.add(words[2].toLowerCase());
  return { text: join("FROM", flags, [image, ...words.slice(1)].join(" ")) };
}

function noteArguments(rest: string, context: Context): Done {
  for (const word of shellWords(rest)) {
    const at = word.indexOf("=");
    if (at < 0) continue;
    const value = expandWord(word.slice(at + 1), context.args, context.escapeMark);
    if (value === null)
      return { refuse: "ARG before FROM may only use variables as $NAME, or with braces and a default." };
    context.args.set(word.slice(0, at), value);
  }
  return { text: `ARG ${rest}` };
}

function rewriteRun({ flags, rest }: Instruction, context: Context): Done {
  const result: string[] = [];
  for (const flag of flags) {
    const [name = "", value = ""] = splitOnce(flag);
    if (name === "mount") {
      const mount = rewriteMount(value, context);
      if ("refuse" in mount) return mount;
      result.push(`mount=${mount.text}`);
    } else if (name === "network" && (value === "default" || value === "none")) {
      // What it asks for is what it gets; only the second changes anything.
      if (value === "none") result.push(flag);
    } else if (name === "network") {
      return { refuse: `RUN --network=${value} is not available: build steps have a network of their own.` };
    } else if (name === "security" && value !== "sandbox") {
      return { refuse: `RUN --security=${value} is not available: build steps run without privileges.` };
    } else if (name !== "security") {
      return { refuse: `the option --${name} of RUN is not available.` };
    }
  }
  if (context.options.hasCaBundle) result.unshift(`mount=type=secret,id=${CA_SECRET},target=${CA_PATH},mode=0444`);
  return { text: join("RUN", result, rest) };
}

/** Gives each cache mount an id of the namespace: without one its path would be the id, for everybody. */
function rewriteMount(value: string, context: Context): Done {
  const fields = value.split(",").map((field) => {
    const [key = "", option] = splitOnce(field);
    return { key: key.toLowerCase(), option, field };
  });
  const last = (...keys: string[]): string | undefined => fields.findLast(({ key }) => keys.includes(key))?.option;
  const type = (last("type") ?? "bind").toLowerCase();
  if (!MOUNT_TYPES.has(type)) return { refuse: `RUN --mount=type=${type} is not available.` };
  const from = last("from");
  if (from !== undefined) {
    const problem = checkSource(from, context);
    if (problem !== null) return { refuse: problem };
  }
  if (type === "secret") return { text: rewriteSecret(value, fields, context.options.secretIds) };
  if (type !== "cache") return { text: value };
  const id = last("id") ?? last("target", "dst", "destination") ?? "";
  const others = fields.filter(({ key }) => key !== "id").map(({ field }) => field);
  return { text: [...others, `id=${context.options.cacheNamespace}-${id}`].join(",") };
}

/**
 * Gives a mounted secret of the project the id of this build, which changes with its value, and leaves it in its place.
 * Others are not there, as the engine will say where they are required.
 */
function rewriteSecret(
  value: string,
  fields: readonly { key: string; option: string | undefined; field: string }[],
  ids: ReadonlyMap<string, string>,
): string {
  const last = (...keys: string[]): string | undefined => fields.findLast(({ key }) => keys.includes(key))?.option;
  const target = last("target", "dst", "destination");
  const name = last("source", "src") ?? last("id") ?? baseName(target ?? "");
  const id = ids.get(name);
  if (id === undefined) return value;
  const others = fields.filter(({ key }) => !["id", "source", "src"].includes(key)).map(({ field }) => field);
  const place = target === undefined && last("env") === undefined ? [`target=/run/secrets/${name}`] : [];
  return [...others, `id=${id}`, ...place].join(",");
}

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** The engine itself, not a step, would fetch what ADD names: with the reach of the host. */
function rewriteAdd({ flags, rest, documents }: Instruction): Done {
  const list = parseJsonList(rest);
  const words = list ?? rest.split(/[\t\v\f\r ]+/).filter((word) => word !== "");
  const sources = words.slice(0, -1);
  const remote = sources.find((word) =>
    /^["'\\]*(?:[a-z][a-z0-9+.-]*:\/\/|[^/\s]+@[^/\s]+:|github\.com\/)/i.test(word),
  );
  if (remote !== undefined) {
    return {
      refuse: `ADD does not fetch ${remote.slice(0, 200)} here. Fetch it in a RUN step, or put it in the project.`,
    };
  }
  // With this in front a source is a path of the project, whatever its variables and quotes come to.
  const local = sources.map((word) =>
    /^[./]/.test(word) || (documents.length > 0 && word.includes("<<")) ? word : `./${word}`,
  );
  const all = [...local, ...words.slice(-1)];
  return { text: join("ADD", flags, list === null ? all.join(" ") : JSON.stringify(all)) };
}

function rewriteCopy({ flags, rest }: Instruction, context: Context): Done {
  for (const flag of flags) {
    const [name, value = ""] = splitOnce(flag);
    const problem = name === "from" ? checkSource(value, context) : null;
    if (problem !== null) return { refuse: problem };
  }
  return { text: join("COPY", flags, rest) };
}

/** A stage, its number, or an image. */
function checkSource(source: string, context: Context): string | null {
  if (source.includes("$")) return "name the stage or image of `from` without variables.";
  return context.stages.has(source.toLowerCase()) || /^\d+$/.test(source) ? null : checkImage(source, context);
}

/** Images come from public registries by name: not from addresses, and not from the platform's own registry. */
function checkImage(image: string, { options }: Context): string | null {
  const [first = "", ...path] = image.split("/");
  // Newer engines take a first part with upper case for a registry, too.
  const named = /[.:]/.test(first) || first.toLowerCase() === "localhost" || first !== first.toLowerCase();
  if (path.length === 0 || !named) return null;
  // In the one spelling that hosts are compared in: an engine reads more of them.
  const registry = normaliseRegistry(first);
  const [host = ""] = (registry ?? "").split(":");
  const isPublic =
    host.includes(".") &&
    !/^(?:\d+|0x[\da-f]*)$/.test(host.slice(host.lastIndexOf(".") + 1)) &&
    !/\.(?:local|localhost|internal|lan|home\.arpa)$/.test(host);
  if (isPublic && registry !== normaliseRegistry(options.registryHost)) return null;
  return `images of the registry ${first} are not available to builds. Use one of a public registry.`;
}

const splitOnce = (text: string): [string, string | undefined] => {
  const at = text.indexOf("=");
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
};

const join = (name: string, flags: readonly string[], rest: string): string =>
  [name, ...flags.map((flag) => `--${flag}`), rest].join(" ");
