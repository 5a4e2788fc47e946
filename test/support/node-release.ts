import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { CommandError, run } from "@svc/runtime/command";
import { ownProgram, type ProgramFile } from "@svc/runtime/programs";

const installMs = 240_000;

/**
 * Another release of Node than ours, from the package registry by npm, below `dir`. npm keeps what it loaded, so that a registry
 * is asked once. Throws one line that says what could not be had.
 */
export async function installNode(version: string, dir: string): Promise<ProgramFile> {
  const name = `node-linux-${process.arch}`;
  await mkdir(dir, { recursive: true });
  const flags = [
    "--ignore-scripts",
    "--prefer-offline",
    "--no-save",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
  ];
  try {
    await run(["npm", "install", "--prefix", dir, ...flags, `${name}@${version}`], { cwd: dir, timeoutMs: installMs });
  } catch (thrown) {
    const said = thrown instanceof CommandError ? thrown.output : String(thrown);
    const why =
      said.split("\n").find((line) => /^npm (ERR!|error) /.test(line) && !/ (code|syscall|errno) /.test(line)) ?? said;
    throw new Error(`npm could not install ${name}@${version}, which this test runs: ${why.split("\n")[0]}`, {
      cause: thrown,
    });
  }
  return ownProgram(join(dir, "node_modules", name, "bin", "node"));
}
