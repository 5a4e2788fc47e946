import { delimiter, join } from "node:path";
import { isOciManifest, type Manifest, type SourceManifest } from "@svc/proto";
import { limits } from "@svc/proto/limits";
import { ownProgram, type ProgramFile, thisNode } from "@svc/runtime/programs";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { findManifest, getManifest, type ManifestPlace } from "../manifest-file.ts";
import { type ChildEnd, runServer } from "./child.ts";
import { type DevServer, detectDevServer, type Start } from "./detection.ts";
import { freePort, isHeld, untilHeld } from "./ports.ts";
import { findProgram, look, programFolders } from "./seen.ts";

const reloadAfterMs = 50;

/** What was asked of `svc dev`. */
export interface DevOptions {
  db: boolean;
  sync: boolean;
  open: boolean;
  port: number | undefined;
  project: string | undefined;
}

/** An app on this machine. */
interface App {
  place: ManifestPlace;
  /** Null without a manifest, and for an image. */
  manifest: SourceManifest | null;
  directory: string;
  server: DevServer;
}

/** Runs the server of this directory until it ends, with what was asked for beside it. */
export async function serveHere(context: Context, options: DevOptions) {
  const app = await findApp(context);
  const over = new AbortController();
  await using stack = new AsyncDisposableStack();
  if (options.sync) {
    const [{ ensureTarget, requireDevSync }, { beside }] = await Promise.all([
      import("./sync.ts"),
      import("./beside.ts"),
    ]);
    const api = await context.api();
    const manifest = await requireDevSync(api, app.place);
    // A database belongs to a project, which the first sync would make a moment later.
    if (options.db)
      await ensureTarget(beside(context, "sync", context.signal), api, manifest, {
        ...{ place: app.place, named: options.project },
      });
  }
  const port = await choosePort(context, app.server, options.port);
  const start = app.server.startAt(port);
  const { advice, framework } = app.server;
  if (advice !== undefined) context.warn(advice);
  const variables: Record<string, string> = {
    PORT: String(port),
    // As containers of the dev channel have them.
    SVC_CHANNEL: "dev",
    SVC_PUBLIC_URL: `http://localhost:${port}`,
  };
  if (options.db) {
    const { databaseVariable, provideDatabase } = await import("./database.ts");
    const engine = app.manifest?.database.engine ?? null;
    const given = { named: options.project, engine, directory: app.directory, signal: over.signal };
    variables[databaseVariable] = stack.use(await provideDatabase(context, given)).url;
  }
  const onStart = () => {
    context.terminal.step(`${titleOf(start)} on http://localhost:${port}`);
    if (options.open && context.terminal.interactive) openOnceThere(context, port, over.signal);
  };
  const syncing = options.sync ? syncBeside(context, app, options, over.signal) : null;
  try {
    const { exitCode, wasAsked } =
      start.by === "files"
        ? await serveSite(context, join(app.directory, start.directory), port, onStart)
        : await runServer(
            context,
            {
              argv: await argvOf(start, context, app.directory),
              cwd: app.directory,
              env: environmentOf(context, app, variables),
            },
            onStart,
          );
    return { framework, port, exitCode, ...(wasAsked && { asked: true }) };
  } finally {
    over.abort();
    await syncing;
  }
}

async function findApp(context: Context): Promise<App> {
  const place = await context.manifestPlace();
  const found = context.globals.manifestNamed ? await getManifest(place) : await findManifest(place);
  const manifest = sourceIn(found);
  const top = place.repository ?? place.directory;
  const directory = manifest === null ? place.directory : join(top, manifest.source.rootDirectory);
  const server = detectDevServer(await look(directory, top), {
    ...manifest?.dev,
    appPort: manifest?.app.port ?? limits.appPortDefault,
    site: siteOf(manifest),
  });
  if (server !== null) return { place, manifest, directory, server };
  throw new CliError("CLI_INVALID_USAGE", `Nothing in ${directory} says how its app is started`, {
    hint: "Write the command into the manifest (`command: …` below `dev:`), or a script `dev` into package.json",
  });
}

const sourceIn = (manifest: Manifest | null): SourceManifest | null =>
  manifest === null || isOciManifest(manifest) ? null : manifest;

/** The directory of a static site that is served as it is packed. */
function siteOf(manifest: SourceManifest | null): string | null {
  if (manifest?.app.type !== "static" || manifest.build.command !== undefined) return null;
  const { output = "." } = manifest.build;
  return output === "." ? null : output;
}

/** Where the server is to listen. CLI_INVALID_USAGE when something else does, and nobody left the choice to us. */
async function choosePort({ clock, terminal }: Context, server: DevServer, asked: number | undefined): Promise<number> {
  const port = asked ?? server.port;
  if (server.isPortFixed === true && port !== server.port)
    throw new CliError("CLI_INVALID_USAGE", `The command that is started names port ${server.port} itself`, {
      hint: `Leave --port out, or take the port out of the command: it is in PORT`,
    });
  if (!(await isHeld(clock, port))) return port;
  const other = asked === undefined && !server.isPortSaid ? await freePort(clock, port + 1) : null;
  if (other === null)
    throw new CliError("CLI_INVALID_USAGE", `Something else on this machine uses port ${port}`, {
      hint: "End it, or name another port with --port <n>",
    });
  terminal.step(`Something else on this machine uses port ${port}: taking ${other}`);
  return other;
}

/** What is started, as a person would type it. */
function titleOf(start: Start): string {
  switch (start.by) {
    case "shell":
      return start.command;
    case "program":
      return [start.program, ...start.args].join(" ");
    case "script":
      return `The script ${start.script} of package.json`;
    case "node":
      return "node .";
    case "files":
      return `The files of ${start.directory === "." ? "this directory" : start.directory}`;
  }
}

const onPath = ({ env }: Context): string[] => (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");

async function argvOf(
  start: Exclude<Start, { by: "files" }>,
  context: Context,
  directory: string,
): Promise<[ProgramFile, ...string[]]> {
  switch (start.by) {
    case "shell":
      return [ownProgram("/bin/sh"), "-c", start.command];
    case "node":
      return [(await findProgram("node", onPath(context))) ?? thisNode, "."];
    case "program": {
      const program = await findProgram(start.program, programFolders(directory));
      if (program !== null) return [program, ...start.args];
      throw new CliError("CLI_INVALID_USAGE", `${start.program} is not installed in ${directory}`, {
        hint: "Install the app's packages first, for example with `npm install`",
      });
    }
    case "script": {
      const name = start.manager === "yarn-berry" ? "yarn" : start.manager;
      const manager = await findProgram(name, onPath(context));
      // Of npm's own words the first two dashes are the end.
      const rest = start.args.length === 0 ? [] : name === "npm" ? ["--", ...start.args] : start.args;
      if (manager !== null) return [manager, "run", start.script, ...rest];
      throw new CliError("CLI_INVALID_USAGE", `${name} is not on the PATH, and runs the scripts of this app`, {
        hint: `Install ${name}, or write the command into the manifest (\`command: …\` below \`dev:\`)`,
      });
    }
  }
}

/** The server finds the programs of its packages, as its scripts do. */
function environmentOf(
  context: Context,
  { directory, server }: App,
  variables: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  const path = [...programFolders(directory), ...onPath(context)].join(delimiter);
  // It opens a browser by itself, which is for --open to say.
  const quiet = server.framework === "create-react-app" ? { BROWSER: "none" } : {};
  return { ...quiet, ...context.env, PATH: path, ...variables };
}

async function serveSite(context: Context, directory: string, port: number, onStart: () => void): Promise<ChildEnd> {
  const [{ serveFiles }, { bareTree, moreWatches, watchTree }] = await Promise.all([
    import("./files-server.ts"),
    import("./watch.ts"),
  ]);
  const { clock, signal } = context;
  await using server = await serveFiles(clock, directory, port);
  let isDue = false;
  // One save is heard of several times.
  const onChange = () => {
    if (isDue) return;
    isDue = true;
    clock.after(reloadAfterMs, () => {
      isDue = false;
      server.reload();
    });
  };
  await watchTree(bareTree(directory), {
    ...{ clock, signal, onChange },
    onScan: () => context.warn(moreWatches),
  });
  onStart();
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  return { exitCode: 0, wasAsked: true };
}

/** Deploys what is saved for as long as the server runs. Whatever comes of it, the server goes on. */
async function syncBeside(context: Context, { place }: App, { project }: DevOptions, over: AbortSignal): Promise<void> {
  const [{ keepInSync }, { beside }] = await Promise.all([import("./keep-in-sync.ts"), import("./beside.ts")]);
  const signal = AbortSignal.any([over, context.signal]);
  const own = beside(context, "sync", signal);
  try {
    await keepInSync(own, { place, named: project });
  } catch (thrown) {
    if (signal.aborted) return;
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    own.terminal.step(`It has stopped: ${why}. Start \`svc dev --sync\` again`, "failed");
  }
}

function openOnceThere({ clock, terminal }: Context, port: number, signal: AbortSignal): void {
  const open = async () => {
    await untilHeld(clock, port, signal);
    const { openBrowser } = await import("../browser.ts");
    openBrowser(`http://localhost:${port}`);
  };
  open().catch((thrown: unknown) => {
    if (!signal.aborted) terminal.step(`No browser was opened: ${String(thrown)}`);
  });
}
