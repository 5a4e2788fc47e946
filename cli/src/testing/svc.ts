import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";

/** The program of this source tree. */
export const binary = fileURLToPath(new URL("../../bin/svc.mjs", import.meta.url));

/** Names the directory of the bundle that all tests of a run share; see `testedProgram`. */
export const bundleVariable = "SVC_TEST_BUNDLE";

/** The program that a run tests, the bundle or that of this source tree where there is none; and what Node may keep of it. */
export function testedProgram(): { program: string; cache: string } {
  const bundle = process.env[bundleVariable];
  return {
    program: bundle === undefined ? binary : join(bundle, "bin", "svc.mjs"),
    // With the bundle: it is of no use to any other.
    cache: join(bundle ?? tmpdir(), "svc-cli-test-cache"),
  };
}

/** How a run of the program ended. */
export interface Ended {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** A directory of its own, gone at the end of the block. */
export async function aDirectory(
  files: Readonly<Record<string, string | Uint8Array>> = {},
): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), "svc-cli-test-"));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(path, name)), { recursive: true });
    await writeFile(join(path, name), text);
  }
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export interface SvcOptions {
  cwd: string;
  /** The program; default: the tested one. */
  program?: string;
  /** Where the login is stored; default: below `cwd`. */
  home?: string;
  env?: Readonly<Record<string, string>>;
  /** What is fed to it; default: nothing. */
  stdin?: string;
  /** Called with everything on stderr so far; may send one signal. */
  onStderr?: (text: string, kill: (signal: NodeJS.Signals) => void) => void;
  /** Whether that signal reaches every process of the run, as Ctrl-C at a terminal does, and not only the first. */
  toAll?: boolean;
  /** What nobody reads to its end, as `| head` does: stderr after its first words, stdout from the start. */
  unread?: "stdout" | "stderr";
}

/** Runs the real program in an environment of its own: nothing of the tester's login, no colours, no terminal. */
export function svc(
  args: readonly string[],
  { cwd, home, program, env = {}, stdin = "", onStderr, toAll = false, unread }: SvcOptions,
): Promise<Ended> {
  const own = home ?? join(cwd, ".home");
  const tested = testedProgram();
  const child = spawnProgram([thisNode, program ?? tested.program, ...args], {
    cwd,
    env: {
      PATH: process.env["PATH"],
      HOME: own,
      XDG_CACHE_HOME: tested.cache,
      ...env,
    },
    stdio: ["pipe", "pipe", "pipe"],
    timeout: 45_000,
    // A process group of its own.
    detached: toAll,
  });
  // Most commands read none of it.
  child.stdin.on("error", () => {}).end(stdin);
  let stdout = "";
  let stderr = "";
  let signalled = false;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
    onStderr?.(stderr, (signal) => {
      // A second one would end the program in the middle of what the first one made it do.
      if (!signalled && child.pid !== undefined) process.kill(toAll ? -child.pid : child.pid, signal);
      signalled = true;
    });
  });
  if (unread === "stdout") child.stdout.destroy();
  if (unread === "stderr") child.stderr.once("data", () => child.stderr.destroy());
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) => resolve({ status, stdout, stderr }));
  });
}

/** The envelope of a run with --json: stdout has to be exactly one line, an object. */
export function envelopeOf({ stdout, stderr }: Ended): Record<string, unknown> {
  const lines = stdout.split("\n");
  if (lines.length !== 2 || lines[1] !== "") throw new Error(`stdout is not one line: ${stdout}\nstderr: ${stderr}`);
  const value: unknown = JSON.parse(lines[0] ?? "");
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("not an object");
  return Object.fromEntries(Object.entries(value));
}
