import { type Argv, spawnProgram } from "./programs.ts";

export interface CommandOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  timeoutMs?: number;
  /** Written to standard input, which is otherwise empty. */
  input?: string;
  signal?: AbortSignal;
}

/** What is kept of each output stream; the rest is dropped from the front. */
const keptOutputBytes = 1_000_000;

/** A command could not start, ended with a non-zero code, or ran out of time. `output` is the tail of what it said. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly output: string;
  constructor(message: string, output: string, options?: ErrorOptions) {
    super(message, options);
    this.output = output;
  }
}

function tail() {
  let text = "";
  return {
    add(chunk: string) {
      text = (text + chunk).slice(-keptOutputBytes);
    },
    get text() {
      return text;
    },
  };
}

/** Runs a program (no shell) to its end and returns what it wrote; throws `CommandError` unless it exits with 0. */
export function run(argv: Argv, options: CommandOptions = {}): Promise<{ stdout: string; stderr: string }> {
  const [program] = argv;
  const timeoutMs = options.timeoutMs ?? 120_000;
  const limit = AbortSignal.timeout(timeoutMs);
  const signal = options.signal === undefined ? limit : AbortSignal.any([limit, options.signal]);
  return new Promise((resolve, reject) => {
    const child = spawnProgram(argv, {
      stdio: ["pipe", "pipe", "pipe"],
      signal,
      killSignal: "SIGKILL",
      ...(options.cwd !== undefined && { cwd: options.cwd }),
      ...(options.env !== undefined && { env: options.env }),
    });
    const [stdout, stderr] = [tail(), tail()];
    child.stdout.setEncoding("utf8").on("data", stdout.add);
    child.stderr.setEncoding("utf8").on("data", stderr.add);
    child.stdin.on("error", () => {});
    child.stdin.end(options.input ?? "");
    const fail = (why: string, cause?: unknown) => {
      const output = `${stdout.text}${stderr.text}`.trim();
      const last = output.split("\n").slice(-15).join("\n");
      reject(new CommandError(`${program} ${why}${last === "" ? "" : `\n${last}`}`, output, { cause }));
    };
    child.once("error", (error) => {
      if (limit.aborted) fail(`did not finish within ${timeoutMs / 1000} s`);
      else if (options.signal?.aborted) fail("was interrupted");
      else fail(`could not be run: ${error.message}`, error);
    });
    child.once("close", (code, killedBy) => {
      if (code === 0) resolve({ stdout: stdout.text, stderr: stderr.text });
      else fail(killedBy === null ? `exited with code ${code}` : `was ended by ${killedBy}`);
    });
  });
}
