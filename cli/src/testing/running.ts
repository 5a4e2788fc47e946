import { createServer } from "node:net";
import { join } from "node:path";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { expect } from "vitest";
import { bundleVariable, type Ended, type SvcOptions, testedProgram } from "./svc.ts";

/** A run of the program that goes on. Killed at the end of the block, unless it has ended. */
export interface Running extends AsyncDisposable {
  pid: number;
  stdout(): string;
  stderr(): string;
  /** Waits until stderr says so. */
  says(what: string | RegExp): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  ended: Promise<Ended>;
}

/** Starts the program as `svc` does, and returns at once. */
export function startSvc(
  args: readonly string[],
  { cwd, home, program, env = {} }: Pick<SvcOptions, "cwd" | "home" | "program" | "env">,
): Running {
  const bundle = process.env[bundleVariable];
  const started = program ?? testedProgram();
  const own = home ?? join(cwd, ".home");
  const child = spawnProgram([thisNode, started, ...args], {
    cwd,
    env: {
      PATH: process.env["PATH"],
      HOME: own,
      XDG_CACHE_HOME: join(bundle ?? own, "svc-cli-test-cache"),
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (status) => resolve({ status, stdout, stderr }));
  });
  return {
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    says: (what) => expect.poll(() => stderr).toMatch(what),
    kill: (signal) => child.kill(signal),
    ended: ended.then(async ({ status }) => {
      await new Promise((resolve) => (child.stderr.closed ? resolve(null) : child.once("close", resolve)));
      return { status, stdout, stderr };
    }),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      await ended;
    },
  };
}

/** A port that was free a moment ago. */
export async function aPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Whether a process is there, and not merely waits to be counted out. */
export async function isRunning(pid: number): Promise<boolean> {
  const { readFile } = await import("node:fs/promises");
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => null);
  return stat !== null && !/\) Z /.test(stat);
}
