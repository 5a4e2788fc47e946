import { parseBaseImage } from "@svc/proto";
import { expandWord } from "./expand.ts";
import { type Instruction, parseDockerfile, parseJsonList, shellWords } from "./instructions.ts";
import { isStubStage, type MountTarget, standIns, stubStage } from "./mount-stubs.ts";
import { type MountRules, rewriteMount } from "./run-mounts.ts";

/** A user's Dockerfile as it is built, or why it is not. */
export type Rewritten =
  | {
      text: string;
      /** For each line of `text` the line of the user's file, counted from 1. */
      lines: readonly number[];
      /** Images that stages start from or take files of, each with its defaults written out. */
      baseImages: readonly string[];
    }
  | { refuse: string };

export type RewriteOptions = Pick<MountRules, "cacheNamespace" | "secretIds" | "leavesStubs" | "kindInContext"> & {
  /** Whether RUN steps get the operator's CA bundle. */
  hasCaBundle: boolean;
  /** Whether the engine's own parser knows here-documents. */
  hasDocuments: boolean;
  /** What the build calls its base images, which the engine has under these names. Others keep theirs. */
  baseImageNames: ReadonlyMap<string, string>;
  /** Such as `linux/amd64`. */
  platform: string;
};

/** Id of the secret that holds the CA bundle, and where RUN steps find it. */
export const caSecret = "svc-ca";
const caPath = "/run/svc-build/ca.pem";
/** Variables by which tools find CAs. As arguments they are seen by RUN steps and are not in the image. */
const caVariables = [
  "NODE_EXTRA_CA_CERTS",
  "npm_config_cafile",
  "SSL_CERT_FILE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "PIP_CERT",
  "REQUESTS_CA_BUNDLE",
];

const ownSyntax = /^docker(?:\.io)?\/dockerfile(?::1(?:\.\d+){0,2}(?:-labs)?)?$/;
/** Names of what ADD would unpack. */
const archiveName = /\.(?:tar|tar\.\w+|tgz|tbz2?|txz|tzst)["']*$/i;
/** A value that means the same to every parser. */
const plainFlag = /^[\x21-\x7e]+$/;
/** Every instruction that there may be, with its options. Others are none of a Dockerfile that this platform knows. */
const flagsOf = new Map<string, readonly string[]>([
  ...["ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER"].map(bare),
  ...["SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"].map(bare),
  ["ADD", ["chmod", "chown", "exclude", "link"]],
  ["COPY", ["chmod", "chown", "exclude", "from", "link", "parents"]],
  ["FROM", ["platform"]],
  ["RUN", ["mount", "network", "security"]],
]);
const repeatable = new Set(["exclude", "mount"]);
/** What the engine takes for the name of a stage; anything else would not count as one. */
const stageName = /^[a-z][a-z0-9._-]*$/;

function bare(name: string): [string, readonly string[]] {
  return [name, []];
}

/**
 * Makes a user's Dockerfile safe to build beside others: its cache mounts are kept to one namespace, the parser
 * is the engine's own, and nothing is fetched by the engine itself: base images are there under the names they get.
 * Instructions come out on one line each and with the options that are known here, so that the engine reads exactly
 * what was looked at here.
 */
export function rewriteDockerfile(text: string, options: RewriteOptions): Rewritten {
  const parsed = parseDockerfile(text);
  if ("refuse" in parsed) return parsed;
  const syntax = parsed.directives.get("syntax");
  if (syntax !== undefined && !ownSyntax.test(syntax)) {
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
    begun: 0,
  };
  for (const instruction of parsed.instructions) {
    const done = rewriteInstruction(instruction, context);
    if ("refuse" in done) return { refuse: `Line ${instruction.line} of the Dockerfile: ${done.refuse}` };
    for (const text of [...(done.before ?? []), done.text]) emit(text, instruction.line);
    for (const [index, document] of instruction.documents.entries()) emit(document, instruction.line + index + 1);
    if (instruction.name === "FROM" && options.hasCaBundle) {
      for (const name of caVariables) emit(`ARG ${name}=${caPath}`, instruction.line);
    }
  }
  if (context.begun === 0) return { refuse: "The Dockerfile has no FROM instruction." };
  return { text: `${out.join("\n")}\n`, lines, baseImages: [...context.baseImages] };
}

interface Context {
  options: RewriteOptions;
  escapeMark: string;
  /** Arguments in front of the first stage, which FROM may use. */
  args: Map<string, string>;
  stages: Set<string>;
  baseImages: Set<string>;
  /** Stages that have begun. */
  begun: number;
}
/** `before` are instructions of the platform's own. */
type Done = { text: string; before?: readonly string[] } | { refuse: string };

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
  if (flags.some((flag) => !plainFlag.test(flag) || /["'\\`]/.test(flag))) {
    return { refuse: `write the options of ${name} without quotes and escapes.` };
  }
  if (documents.length > 0 && !context.options.hasDocuments) {
    return { refuse: "this platform's container engine does not know here-documents (<<): put the text in a file." };
  }
  const problem = name === "ONBUILD" ? null : checkFlags(name, flags);
  if (problem !== null) return { refuse: problem };
  switch (name) {
    case "FROM":
      return rewriteFrom(instruction, context);
    case "ARG":
      if (context.begun === 0) return noteArguments(rest, context);
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

function checkFlags(name: string, flags: readonly string[]): string | null {
  const known = flagsOf.get(name);
  if (known === undefined) return `${name.slice(0, 100)} is not an instruction that is known here.`;
  const seen = new Set<string>();
  for (const flag of flags) {
    const [option] = splitOnce(flag);
    if (!known.includes(option))
      return `the option --${option.slice(0, 100)} of ${name} is not available: leave it out.`;
    if (seen.has(option) && !repeatable.has(option)) return `${name} has the option --${option} twice.`;
    seen.add(option);
  }
  return null;
}

function rewriteFrom({ flags, rest }: Instruction, context: Context): Done {
  const words = shellWords(rest);
  const source = expandWord(words[0] ?? "", context.args, context.escapeMark);
  if (source === null) return { refuse: "FROM may only use variables as $NAME, or with braces and a default." };
  const image = isStage(source, context) ? { text: source } : nameImage(source, context);
  if ("refuse" in image) return image;
  for (const flag of flags) {
    const platform = flag.startsWith("platform=")
      ? expandWord(flag.slice("platform=".length), context.args, context.escapeMark)
      : null;
    if (platform !== context.options.platform) {
      return { refuse: `builds here are for ${context.options.platform}: leave --platform out of FROM.` };
    }
  }
  const [, as, name, ...others] = words;
  if (as !== undefined && (as.toUpperCase() !== "AS" || name === undefined || others.length > 0)) {
    return { refuse: "write FROM as `FROM image` or `FROM image AS name`." };
  }
  const stage = name?.toLowerCase();
  if (stage !== undefined && (!stageName.test(stage) || isStubStage(stage))) {
    return {
      refuse: `${stage.slice(0, 100)} cannot be the name of a stage: choose letters, digits, and . _ - behind a letter.`,
    };
  }
  const before = context.begun === 0 && context.options.leavesStubs ? stubStage : [];
  context.begun += 1;
  if (stage !== undefined) context.stages.add(stage);
  return { text: join("FROM", [], stage === undefined ? image.text : `${image.text} AS ${stage}`), before };
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
  const { options } = context;
  const rules: MountRules = { ...options, source: (from) => rewriteSource(from, context) };
  const result: string[] = [];
  const targets: MountTarget[] = [];
  if (options.hasCaBundle) {
    result.push(`mount=type=secret,id=${caSecret},target=${caPath},mode=0444`);
    targets.push({ kind: "file", path: caPath });
  }
  for (const flag of flags) {
    const [name, value = ""] = splitOnce(flag);
    if (name === "mount") {
      const mount = rewriteMount(value, rules);
      if ("refuse" in mount) return mount;
      result.push(`mount=${mount.text}`);
      targets.push(...mount.targets);
    } else if (name === "network") {
      if (value !== "default" && value !== "none") {
        return { refuse: `RUN --network=${value} is not available: build steps have a network of their own.` };
      }
      // What it asks for is what it gets; only this one changes anything.
      if (value === "none") result.push("network=none");
    } else if (value !== "sandbox") {
      return { refuse: `RUN --security=${value} is not available: build steps run without privileges.` };
    }
  }
  return { text: join("RUN", result, rest), before: options.leavesStubs ? standIns(targets) : [] };
}

/**
 * The engine itself, not a step, would fetch what ADD names, with the reach of the host, and unpack it, past the limits of
 * the build and beyond anybody's power to end it. COPY does the rest.
 */
function rewriteAdd({ flags, rest, documents }: Instruction): Done {
  const list = parseJsonList(rest);
  const words = list ?? rest.split(/[\t\v\f\r ]+/).filter((word) => word !== "");
  const sources = words.slice(0, -1);
  const remote = sources.find(isRemote);
  if (remote !== undefined) {
    return {
      refuse: `ADD does not fetch ${remote.slice(0, 200)} here. Fetch it in a RUN step, or put it in the project.`,
    };
  }
  const archive = sources.find((word) => archiveName.test(word));
  if (archive !== undefined) {
    return {
      refuse: `ADD does not unpack ${archive.slice(0, 200)} here. COPY it, and unpack it in a RUN step.`,
    };
  }
  // With this in front a source is a path of the project, whatever its variables and quotes come to.
  const local = sources.map((word) =>
    /^[./]/.test(word) || (documents.length > 0 && word.includes("<<")) ? word : `./${word}`,
  );
  const all = [...local, ...words.slice(-1)];
  return { text: join("COPY", flags, list === null ? all.join(" ") : JSON.stringify(all)) };
}

/** `https://…`, `git@host:…`, `github.com/…`, with whatever quotes. */
function isRemote(word: string): boolean {
  if (/^["'\\]*(?:[a-z][a-z0-9+.-]*:\/\/|github\.com\/)/i.test(word)) return true;
  const [host = ""] = word.split(/[/\s]/, 1);
  // Something in front, and something between the two.
  const at = host.indexOf("@", 1);
  return at > 0 && host.indexOf(":", at + 2) > 0;
}

function rewriteCopy({ flags, rest }: Instruction, context: Context): Done {
  const result: string[] = [];
  for (const flag of flags) {
    const [name, value = ""] = splitOnce(flag);
    const rewrite = /^\d+$/.test(value) ? rewriteNumber : rewriteSource;
    const source = name === "from" ? rewrite(value, context) : null;
    if (source !== null && "refuse" in source) return source;
    result.push(source === null ? flag : `from=${source.text}`);
  }
  return { text: join("COPY", result, rest) };
}

/** The number of a stage, by which only COPY knows them: for a mount the engine would look for an image. */
function rewriteNumber(source: string, { begun, options }: Context): { text: string } | { refuse: string } {
  const number = Number(source);
  if (number >= begun) return { refuse: `there is no stage ${source.slice(0, 100)} before this line.` };
  return { text: String(options.leavesStubs ? number + 1 : number) };
}

/** A stage by its name, or an image by the name that it has in the build. */
function rewriteSource(source: string, context: Context): { text: string } | { refuse: string } {
  if (source === "" || source.includes("$")) return { refuse: "name the stage or image of `from` without variables." };
  return isStage(source, context) ? { text: source } : nameImage(source, context);
}

const isStage = (name: string, { stages }: Context): boolean => name === "scratch" || stages.has(name.toLowerCase());

/** Whatever is no image by the platform's own grammar is refused: the engine might make something else of it. */
function nameImage(image: string, { options, baseImages }: Context): { text: string } | { refuse: string } {
  const reference = parseBaseImage(image);
  if ("problem" in reference) {
    return { refuse: `${JSON.stringify(image.slice(0, 100))} is not the name of an image. ${reference.problem}` };
  }
  baseImages.add(reference.canonical);
  return { text: options.baseImageNames.get(reference.canonical) ?? image };
}

const splitOnce = (text: string): [string, string | undefined] => {
  const at = text.indexOf("=");
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
};

const join = (name: string, flags: readonly string[], rest: string): string =>
  [name, ...flags.map((flag) => `--${flag}`), rest].join(" ");
