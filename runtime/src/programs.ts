import {
  type ChildProcess,
  type ChildProcessByStdio,
  type ExecFileSyncOptions,
  execFileSync,
  type SpawnOptions,
  spawn,
} from "node:child_process";
import { existsSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { missingMessage, mustBeListed, programs } from "./program-list.mjs";

/** A program of the machine; set-up knows how each gets there. */
export type ProgramName = keyof typeof programs;

declare const file: unique symbol;
/** The file of a program that is not looked for on the PATH. */
export type ProgramFile = string & { readonly [file]: true };

/** What to run, and its arguments. No shell ever reads them. */
export type Argv = readonly [ProgramName | ProgramFile, ...string[]];

/** A program that came with this repository's packages, such as Node itself, by its absolute path. */
export function ownProgram(path: string): ProgramFile {
  if (!isAbsolute(path)) throw new Error(`${path} is no absolute path: a program of the machine goes by its name`);
  return path as ProgramFile;
}

/** The Node that runs this very process. */
export const thisNode: ProgramFile = ownProgram(process.execPath);

/** A program of the list from where somebody wants it to be taken; its mere name means the PATH. */
export const programAt = (_name: ProgramName, path: string): ProgramFile => path as ProgramFile;

/** The file of a program that something else than we starts. Throws when it is not there under any of its names. */
export function getProgram(name: ProgramName): ProgramFile {
  const names = [name, ...(programs[name].orElse ?? [])];
  const dirs = (process.env["PATH"] ?? "").split(":").filter(isAbsolute);
  const found = names.flatMap((each) => dirs.map((dir) => join(dir, each))).find(existsSync);
  if (found === undefined) throw new Error(missingMessage(name));
  return ownProgram(found);
}

/** Arguments of a program that starts another one: `["--pdeathsig", "TERM", ...argv("dockerd", "--version")]`. */
export const argv = (...words: Argv): Argv => words;

type Stdio = "pipe" | "ignore" | "inherit";
type Options = Omit<SpawnOptions, "shell">;

/**
 * Starts a program: the one place where that is done. A program that is not there ends in an `error` event,
 * as with `spawn`, that names the Debian package which has it.
 */
export function spawnProgram<In extends Stdio, Out extends Stdio, Err extends Stdio>(
  argv: Argv,
  options: Options & { stdio: readonly [In, Out, Err] },
): ChildProcessByStdio<
  In extends "pipe" ? Writable : null,
  Out extends "pipe" ? Readable : null,
  Err extends "pipe" ? Readable : null
>;
export function spawnProgram(argv: Argv, options?: Options): ChildProcess;
export function spawnProgram([program, ...args]: Argv, options: Options = {}): ChildProcess {
  mustBeListed(program);
  const child = spawn(program, args, options);
  child.once("error", (error) => {
    if (isMissing(error, options)) error.message = missingMessage(program);
    // Nobody else listens: it must not pass unnoticed because of us.
    if (child.listenerCount("error") === 0) throw error;
  });
  return child;
}

/** Runs a program to its end, and this process waits; returns what it wrote. Only for what cannot wait otherwise, and tests. */
export function runProgramSync(
  [program, ...args]: Argv,
  options: Omit<ExecFileSyncOptions, "shell" | "encoding"> = {},
): Buffer {
  mustBeListed(program);
  try {
    return execFileSync(program, args, options);
  } catch (error) {
    if (error instanceof Error && isMissing(error, options)) error.message = missingMessage(program);
    throw error;
  }
}

/** A working directory that is not there gives the same code as a program that is not there. */
const isMissing = (error: NodeJS.ErrnoException, { cwd }: Pick<Options, "cwd">): boolean =>
  error.code === "ENOENT" && (cwd === undefined || existsSync(cwd));
