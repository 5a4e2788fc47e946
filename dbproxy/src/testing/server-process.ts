import type { ChildProcess } from "node:child_process";
import { chown, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Argv, spawnProgram } from "@svc/runtime/programs";
import { waitFor } from "./wait-for.ts";

/** nobody. */
const nobody = 65_534;
const isRoot = process.getuid?.() === 0;
const stopMs = 30_000;

/** Options of setpriv(1): servers refuse to run as root, and must find their own files in a checkout that only root may enter. */
export const unprivileged: readonly string[] = isRoot
  ? [
      ...[`--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups"],
      ...["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--securebits=+no_setuid_fixup"],
    ]
  : ["--no-new-privs"];

/** Makes a directory that such a server owns. */
export async function makeServerDirectory(path: string): Promise<void> {
  await mkdir(path);
  if (isRoot) await chown(path, nobody, nobody);
}

/** A directory of temporary files that such a server may write to. */
export async function serverDirectory(prefix: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), prefix));
  if (isRoot) await chown(dir, nobody, nobody);
  return dir;
}

/** A database server that runs on files of its own. */
export interface ServerProcess extends AsyncDisposable {
  pid: number;
  start(): Promise<void>;
  /** Ends it at once, sessions and all; its files stay. */
  stop(): Promise<void>;
}

/** Starts a server that ends with the test also when that is killed. Disposing it removes `dir`. */
export async function runServer(options: {
  dir: string;
  argv: Argv;
  stopSignal: NodeJS.Signals;
  isReady: () => Promise<boolean>;
}): Promise<ServerProcess> {
  const { dir, argv, stopSignal, isReady } = options;
  let child: ChildProcess | null = null;
  const server: ServerProcess = {
    get pid() {
      if (child?.pid === undefined) throw new Error("the server does not run");
      return child.pid;
    },
    async start() {
      const started = spawnProgram(["setpriv", "--pdeathsig", "KILL", ...unprivileged, "--", ...argv], {
        ...{ cwd: dir, env: { PATH: process.env["PATH"] }, stdio: "ignore" },
      });
      child = started;
      try {
        await waitFor(async () => started.exitCode !== null || (await isReady()));
        if (started.exitCode !== null) throw new Error(`it ended with ${started.exitCode}`);
      } catch (cause) {
        await server.stop();
        const log = await readFile(join(dir, "log"), "utf8").catch(() => "no log");
        throw new Error(`the server did not start:\n${log.slice(-2_000)}`, { cause });
      }
    },
    async stop() {
      const ending = child;
      child = null;
      if (ending === null || ending.exitCode !== null || ending.signalCode !== null) return;
      const exited = new Promise<void>((resolve) => ending.once("exit", () => resolve()));
      ending.kill(stopSignal);
      const timer = setTimeout(() => ending.kill("SIGKILL"), stopMs);
      await exited;
      clearTimeout(timer);
    },
    async [Symbol.asyncDispose]() {
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}
