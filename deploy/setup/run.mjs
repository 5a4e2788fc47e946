import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { mustBeListed } from "../../runtime/src/program-list.mjs";

/** Set-up cannot go on; the message says what a person can do about it. */
export class SetupError extends Error {}

/** Administration programs are often outside an ordinary user's PATH. */
const searched = () => [...(process.env.PATH ?? "").split(":"), "/usr/local/sbin", "/usr/sbin", "/sbin"];

/** Absolute path of an executable, or null. */
export function findProgram(name) {
  for (const dir of searched()) {
    if (dir === "") continue;
    const path = join(dir, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {}
  }
  return null;
}

/** Runs to the end without showing anything; throws `SetupError` with the end of the output on failure. */
export function runQuietly(argv, options = {}) {
  mustBeListed(argv[0]);
  const result = spawnSync(argv[0], argv.slice(1), {
    encoding: "utf8",
    maxBuffer: 1 << 26,
    timeout: 900_000,
    ...options,
  });
  if (result.status === 0) return result.stdout;
  const said = `${result.stdout ?? ""}${result.stderr ?? ""}`.trim().split("\n").slice(-20).join("\n");
  throw new SetupError(`${argv.join(" ")} failed${result.error ? ` (${result.error.message})` : ""}\n${said}`);
}

/** Runs in the foreground with our streams, passes signals on, and resolves to the exit code. */
export function runForeground(argv, options = {}) {
  mustBeListed(argv[0]);
  const child = spawn(argv[0], argv.slice(1), { stdio: "inherit", ...options });
  const forward = (signal) => child.kill(signal);
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, forward);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      for (const name of signals) process.off(name, forward);
      resolve(signal === null ? (code ?? 1) : 1);
    });
  });
}
