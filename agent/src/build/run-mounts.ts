import { posix } from "node:path";
import type { MountTarget } from "./mount-stubs.ts";

/** What a mount of a user's RUN step is checked against. */
export interface MountRules {
  cacheNamespace: string;
  /** Secrets that the project has: the id of this build for each that a step may name. */
  secretIds: ReadonlyMap<string, string>;
  /** Whether the engine removes what it made as a target by a path that the step may have bent. */
  leavesStubs: boolean;
  /** What the build's context has at a path without `.` and `..`. */
  kindInContext(path: string): "file" | "directory" | null;
  /** What `from` names, as the engine is to read it. */
  source(from: string): { text: string } | { refuse: string };
}

/** A mount as the engine is told of it, and what it will be mounted upon. */
export type RunMount = { text: string; targets: readonly MountTarget[] } | { refuse: string };

type Options = ReadonlyMap<string, string>;

const aliases: Readonly<Record<string, string>> = {
  src: "source",
  dst: "target",
  destination: "target",
  ro: "readonly",
  rw: "readwrite",
};
/** Options that count as true when nothing is said of them. */
const switches = new Set(["readonly", "readwrite", "required"]);
/** Parts of a path, or a name, that mean the same to every parser: no variable, quote, blank, comma or pattern. */
const word = /^[\w./@:+~%=-]+$/;
const userNumber = /^\d{1,10}$/;
const values: Readonly<Record<string, RegExp>> = {
  env: /^[A-Za-z_]\w*$/,
  from: word,
  gid: userNumber,
  id: word,
  mode: /^[0-7]{1,5}$/,
  readonly: /^(?:true|false)$/,
  readwrite: /^(?:true|false)$/,
  required: /^(?:true|false)$/,
  sharing: /^(?:shared|private|locked)$/,
  size: /^\d{1,15}[kmgt]?b?$/i,
  source: word,
  target: word,
  uid: userNumber,
};
const kinds = new Map<string, { options: readonly string[]; render(options: Options, rules: MountRules): RunMount }>([
  ["bind", { options: ["target", "source", "from", "readonly", "readwrite"], render: renderBind }],
  [
    "cache",
    { options: ["id", "target", "sharing", "mode", "uid", "gid", "readonly", "readwrite"], render: renderCache },
  ],
  ["tmpfs", { options: ["target", "size"], render: renderTmpfs }],
  ["secret", { options: ["id", "source", "target", "env", "required", "mode", "uid", "gid"], render: renderSecret }],
]);
/** Why an option that engines know is not taken here, and what to do instead. */
const insteadOf: Readonly<Record<string, string>> = {
  "cache source": "A cache is mounted as a whole: leave it out, and name a directory below the target in the command.",
  "cache from": "A cache begins empty: fill it in the step, or use a mount of type bind.",
};
/** Where the kernel's and the engine's own files are. */
const ownPlaces = /^\/(?:proc|sys|dev)(?:\/|$)/;
const secretsDir = "/run/secrets";

/** Reads the value of a `--mount` option of RUN. What comes out is written anew: nothing of the user's text is passed on. */
export function rewriteMount(value: string, rules: MountRules): RunMount {
  const options = new Map<string, string>();
  for (const field of value.split(",")) {
    const at = field.indexOf("=");
    const written = (at < 0 ? field : field.slice(0, at)).toLowerCase();
    const name = aliases[written] ?? written;
    if (options.has(name)) return { refuse: `RUN --mount names ${name} twice.` };
    if (at < 0 && !switches.has(name)) return { refuse: `RUN --mount=…,${shown(field)} has no value.` };
    options.set(name, at < 0 ? "true" : field.slice(at + 1));
  }
  const type = (options.get("type") ?? "bind").toLowerCase();
  options.delete("type");
  const kind = kinds.get(type);
  if (kind === undefined) {
    const instead = type === "ssh" ? " There is no SSH agent here: put a key into a variable and mount that." : "";
    return { refuse: `RUN --mount=type=${shown(type)} is not available.${instead}` };
  }
  for (const [name, text] of options) {
    if (!kind.options.includes(name)) {
      const instead = insteadOf[`${type} ${name}`] ?? "Leave it out.";
      return { refuse: `RUN --mount=type=${type} takes no ${shown(name)} here. ${instead}` };
    }
    if (text.includes("$")) return { refuse: `write ${name} of RUN --mount out, without variables.` };
    if (values[name]?.test(text) !== true) return { refuse: `RUN --mount has an unusual ${name}: ${shown(text)}.` };
  }
  const target = options.get("target");
  if (target !== undefined) {
    const problem = checkTarget(target);
    if (problem !== null) return { refuse: problem };
  }
  return kind.render(options, rules);
}

const shown = (text: string): string => text.slice(0, 100);

function checkTarget(target: string): string | null {
  if (target.split("/").includes("..")) return "write the target of RUN --mount without `..`.";
  const path = posix.normalize(target);
  if (path === "/" || ownPlaces.test(path)) return `nothing can be mounted at ${shown(target)}: choose another target.`;
  return null;
}

/** In the order in which they are named here; what is not there is left out. */
const write = (type: string, fields: Readonly<Record<string, string | undefined>>): string =>
  [
    `type=${type}`,
    ...Object.entries(fields).flatMap(([name, text]) => (text === undefined ? [] : [`${name}=${text}`])),
  ].join(",");

const needsTarget = (type: string): RunMount => ({ refuse: `RUN --mount=type=${type} needs a target.` });

function renderCache(options: Options, rules: MountRules): RunMount {
  const target = options.get("target");
  if (target === undefined) return needsTarget("cache");
  const [uid, gid] = [options.get("uid"), options.get("gid")];
  const text = write("cache", {
    // Without one the target would be the id, for everybody.
    id: `${rules.cacheNamespace}-${options.get("id") ?? target}`,
    target,
    ...access(options),
    sharing: options.get("sharing"),
    mode: options.get("mode"),
    uid,
    gid,
  });
  const owner = uid === undefined && gid === undefined ? {} : { owner: `${uid ?? 0}:${gid ?? 0}` };
  return { text, targets: [{ kind: "directory", path: target, ...owner }] };
}

function renderTmpfs(options: Options): RunMount {
  const target = options.get("target");
  if (target === undefined) return needsTarget("tmpfs");
  return {
    text: write("tmpfs", { target, size: options.get("size") }),
    targets: [{ kind: "directory", path: target }],
  };
}

function renderBind(options: Options, rules: MountRules): RunMount {
  const target = options.get("target");
  if (target === undefined) return needsTarget("bind");
  const [source, from] = [options.get("source"), options.get("from")];
  const origin = from === undefined ? undefined : rules.source(from);
  if (origin !== undefined && "refuse" in origin) return origin;
  const text = write("bind", { from: origin?.text, source, target, ...access(options) });
  if (!rules.leavesStubs) return { text, targets: [] };
  if (origin !== undefined) {
    return {
      refuse: `this platform's container engine is too old for RUN --mount=from=${from}: use COPY --from=${from}.`,
    };
  }
  const path = posix.normalize(`/${source ?? ""}`).replace(/^\/|\/$/g, "");
  const kind = rules.kindInContext(path);
  if (kind === null)
    return { refuse: `RUN --mount names ${shown(source ?? "")}, which is no file or directory of the project.` };
  return {
    text,
    targets: [kind === "file" ? { kind: "same", path: target, source: `/${path}` } : { kind, path: target }],
  };
}

const access = (options: Options) => ({ readonly: options.get("readonly"), readwrite: options.get("readwrite") });

/**
 * A mounted secret of the project has the id of this build, which changes with its value, and is in the place of its name.
 * Others are not there, as the engine will say where they are required.
 */
function renderSecret(options: Options, rules: MountRules): RunMount {
  const said = options.get("target");
  if (options.has("id") && options.has("source")) return { refuse: "RUN --mount names id twice." };
  const name = options.get("id") ?? options.get("source") ?? (said === undefined ? undefined : posix.basename(said));
  if (name === undefined) return { refuse: "RUN --mount=type=secret needs an id." };
  const env = options.get("env");
  const target = said ?? (env === undefined ? `${secretsDir}/${posix.basename(name)}` : undefined);
  const text = write("secret", {
    id: rules.secretIds.get(name) ?? name,
    target,
    env,
    required: options.get("required"),
    mode: options.get("mode"),
    uid: options.get("uid"),
    gid: options.get("gid"),
  });
  if (target === undefined || !rules.leavesStubs) return { text, targets: [] };
  // What an image has elsewhere would become empty.
  if (posix.dirname(posix.normalize(target)) !== secretsDir) {
    return { refuse: `this platform's container engine mounts secrets in ${secretsDir} only: leave the target out.` };
  }
  return { text, targets: [{ kind: "file", path: target }] };
}
