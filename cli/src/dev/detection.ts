// @pure
import { codeOf, type PackageJson, type PackageManager } from "@svc/proto/frameworks";

/** What a directory on this machine shows of the app in it. */
export interface Seen {
  /** Null without a `package.json`. */
  manifest: PackageJson | null;
  manager: PackageManager;
  /** Names of what is in the directory itself. */
  names: ReadonlySet<string>;
  /** Texts of the configurations there, by their names. */
  configs: ReadonlyMap<string, string>;
}

/** What the manifest says of developing; a `port` that it does not say is the app's. */
export interface Said {
  command?: string;
  port?: number;
  appPort: number;
  /** The directory of a static site that is not built; null when there is none. */
  site: string | null;
}

/** How a server for development is started. */
export type Start =
  /** A command of the manifest, which a shell reads. */
  | { by: "shell"; command: string }
  /** A program that the app has installed. */
  | { by: "program"; program: string; args: readonly string[] }
  /** A script of `package.json`, with words that are added to it. */
  | { by: "script"; manager: PackageManager; script: string; args: readonly string[] }
  | { by: "node" }
  /** Files of a directory, which we serve ourselves. */
  | { by: "files"; directory: string };

/** A server for development as it was detected. */
export interface DevServer {
  /** `next`, `vite`, …; `custom` for a command of the manifest, `script`, `static` or `node` without a framework. */
  framework: string;
  /** Where it listens unless something else is asked for. */
  port: number;
  /** Whether that port is somebody's word, and not merely what is usual: then it is not moved. */
  isPortSaid: boolean;
  /** Its own words name the port, and nothing that we say moves it. */
  isPortFixed?: boolean;
  startAt(port: number): Start;
  /** What may surprise, and what to do about it. */
  advice?: string;
}

interface Known {
  name: string;
  /** Any of these packages gives it away. */
  packages: readonly string[];
  /** Programs that its scripts start for development; without a script the first one runs with `args`. */
  programs: readonly string[];
  args: readonly string[];
  /** Scripts that start it for development, the likeliest first. */
  scripts: readonly string[];
  port: number;
  /** Whether it goes by PORT. */
  knowsPort?: true;
  /** Words that set the port. */
  portArgs(port: number): string[];
  /** Where a configuration says another port. */
  config?: RegExp;
}

const long = (port: number): string[] => ["--port", String(port)];
// What we say is where it listens: better an error than another port.
const strict = (port: number): string[] => ["--port", String(port), "--strictPort"];
const viteConfig = /^vite\.config\.[cm]?[jt]s$/;

/** In the order of the contract. The first whose package is there counts: most are built on those further down. */
const known: readonly Known[] = [
  {
    ...{ name: "next", packages: ["next"], programs: ["next"], args: ["dev"], scripts: ["dev"], port: 3000 },
    ...{ knowsPort: true, portArgs: (port: number) => ["-p", String(port)] },
  },
  {
    ...{ name: "nuxt", packages: ["nuxt", "nuxt3", "nuxt-nightly"], programs: ["nuxt", "nuxi"], args: ["dev"] },
    ...{ scripts: ["dev"], port: 3000, knowsPort: true, portArgs: long, config: /^nuxt\.config\.[cm]?[jt]s$/ },
  },
  {
    ...{ name: "sveltekit", packages: ["@sveltejs/kit"], programs: ["vite"], args: ["dev"], scripts: ["dev"] },
    ...{ port: 5173, portArgs: strict, config: viteConfig },
  },
  {
    ...{ name: "remix", packages: ["@remix-run/dev"], programs: ["remix"], args: ["vite:dev"], scripts: ["dev"] },
    ...{ port: 5173, portArgs: strict, config: viteConfig },
  },
  {
    ...{ name: "react-router", packages: ["@react-router/dev"], programs: ["react-router"], args: ["dev"] },
    ...{ scripts: ["dev"], port: 5173, portArgs: strict, config: viteConfig },
  },
  {
    ...{
      name: "astro",
      packages: ["astro"],
      programs: ["astro"],
      args: ["dev"],
      scripts: ["dev", "start"],
      port: 4321,
    },
    ...{ portArgs: long, config: /^astro\.config\.[cm]?[jt]s$/ },
  },
  {
    ...{ name: "create-react-app", packages: ["react-scripts"], args: ["start"], scripts: ["start", "dev"] },
    ...{ programs: ["react-scripts", "craco", "react-app-rewired"], port: 3000, portArgs: () => [] },
    knowsPort: true,
  },
  {
    ...{ name: "vite", packages: ["vite"], programs: ["vite"], args: [], scripts: ["dev", "start"], port: 5173 },
    ...{ portArgs: strict, config: viteConfig },
  },
];

/** The Remix of before Vite has a compiler of its own, and its server goes by PORT. */
const classicRemix = { args: ["dev"], port: 3000, knowsPort: true, portArgs: () => [] } as const;

/** The server for development of an app; null when there is nothing that could be started. */
export function detectDevServer(seen: Seen, said: Said): DevServer | null {
  const found = customServer(said) ?? frameworkServer(seen) ?? scriptServer(seen, said) ?? bareServer(seen, said);
  return said.port === undefined || found === null ? found : { ...found, port: said.port, isPortSaid: true };
}

function customServer({ command, appPort }: Said): DevServer | null {
  if (command === undefined) return null;
  const port = portIn(command);
  return {
    framework: "custom",
    port: port ?? appPort,
    ...{ isPortSaid: port !== null, isPortFixed: port !== null },
    startAt: () => ({ by: "shell", command }),
  };
}

function frameworkServer(seen: Seen): DevServer | null {
  const { manifest } = seen;
  const row = known.find(({ packages }) => packages.some((name) => manifest?.dependencies.has(name)));
  if (manifest === null || row === undefined) return null;
  const framework = row.name === "remix" && !manifest.dependencies.has("vite") ? { ...row, ...classicRemix } : row;
  const script = framework.scripts.find((name) => runs(framework, manifest.scripts.get(name)));
  const text = script === undefined ? undefined : manifest.scripts.get(script);
  const saidPort = text === undefined ? null : portIn(text);
  const usual = saidPort ?? configPort(framework, seen) ?? framework.port;
  const base = { framework: framework.name, port: usual, isPortSaid: saidPort !== null };
  const words = text === undefined ? null : plainWords(text);
  if (script !== undefined && (words === null || !framework.programs.includes(words[0] ?? "")))
    return {
      ...base,
      // What is set up around the program is kept. Words can only be added at its end, which may be some other program's.
      isPortSaid: base.isPortSaid || !framework.knowsPort,
      startAt: (port) => ({
        ...{ by: "script", manager: seen.manager, script },
        args: framework.knowsPort || port === usual ? [] : framework.portArgs(port),
      }),
    };
  const [program = framework.name, ...args] = words ?? [...framework.programs.slice(0, 1), ...framework.args];
  const other = manifest.scripts.has("dev") && script === undefined;
  return {
    ...base,
    startAt: (port) => ({ by: "program", program, args: [...withoutPort(args), ...framework.portArgs(port)] }),
    ...(other && {
      advice: `The dev script of package.json starts something else than ${program}. If that is what you want, write \`command: ${scriptLine(seen.manager, "dev")}\` below \`dev:\` in the manifest`,
    }),
  };
}

function scriptServer({ manifest, manager }: Seen, { appPort }: Said): DevServer | null {
  const script = ["dev", "start"].find((name) => manifest?.scripts.has(name));
  if (script === undefined) return null;
  const port = portIn(manifest?.scripts.get(script) ?? "");
  return {
    framework: "script",
    port: port ?? appPort,
    ...{ isPortSaid: port !== null, isPortFixed: port !== null },
    startAt: () => ({ by: "script", manager, script, args: [] }),
  };
}

function bareServer({ manifest, names }: Seen, { appPort, site }: Said): DevServer | null {
  const directory = names.has("index.html") ? "." : site;
  if (directory !== null)
    return { framework: "static", port: appPort, isPortSaid: false, startAt: () => ({ by: "files", directory }) };
  // Node would say that it finds no module, and not what helps.
  if (manifest === null && !names.has("index.js")) return null;
  return { framework: "node", port: appPort, isPortSaid: false, startAt: () => ({ by: "node" }) };
}

/** How a script is run by hand. */
const scriptLine = (manager: PackageManager, script: string): string =>
  `${manager === "yarn-berry" ? "yarn" : manager} run ${script}`;

/** Whether a script starts the framework's program, in whatever surroundings. */
const runs = ({ programs }: Known, text: string | undefined): boolean =>
  text !== undefined &&
  text.length <= commandCharsMax &&
  programs.some((program) => new RegExp(`(?:^|[\\s"'&|;(/])${program}(?=$|[\\s"'&|;)])`).test(text));

const commandCharsMax = 4096;

/** The words of a command in which there is nothing for a shell to do; null when there is. */
function plainWords(text: string): string[] | null {
  const words = text.trim().split(/\s+/);
  return words.every((word) => /^[\w@%+:,./=-]+$/.test(word)) && !/=/.test(words[0] ?? "") ? words : null;
}

const portWord = /(?:^|\s)(?:(?:-p|--port)[ =]+|PORT=)(\d{2,5})(?=$|\s)/;

/** The port that a command line names. */
function portIn(command: string): number | null {
  const port = Number(portWord.exec(command)?.[1] ?? 0);
  return port >= 1 && port <= 65_535 ? port : null;
}

/** Given twice, a port is an error to some programs. */
function withoutPort(args: readonly string[]): string[] {
  return args.filter(
    (word, at) =>
      !/^(?:-p|--port)(?:=|$)/.test(word) && !(/^(?:-p|--port)$/.test(args[at - 1] ?? "") && /^\d+$/.test(word)),
  );
}

/** The port that a configuration has for development, as far as that can be read. */
function configPort({ config }: Known, { configs }: Seen): number | null {
  const [, text] = [...configs].find(([name]) => config?.test(name)) ?? [];
  if (text === undefined) return null;
  const [, port] = /\b(?:server|devServer)\s*:\s*\{[^{}]{0,2000}?\bport\s*:\s*(\d{2,5})/.exec(codeOf(text)) ?? [];
  return port === undefined || Number(port) > 65_535 ? null : Number(port);
}
