import { once } from "node:events";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { missingMessage } from "@svc/runtime/program-list";
import { type Argv, spawnProgram } from "@svc/runtime/programs";
import type { Context } from "../context.ts";
import type { Env } from "../environment.ts";
import { CliError } from "../errors.ts";
import { scrub } from "../redact.ts";
import type { Address } from "./address.ts";
import { engineClients, errorTailOf } from "./engines.ts";

/** Names of every migration or table: of these all count, and there are never as many. */
const outputCharactersMax = 16 * 1024 * 1024;
/** Of what a client says on stderr the end counts. */
const errorCharacters = 64 * 1024;
const killMs = 5000;
/** A migration that builds an index, or a restore. */
const runMsMax = 12 * 3600_000;

export interface ClientRun {
  /** After those that say where the database is. */
  args: readonly string[];
  /** What is fed to it; default: nothing. */
  input?: Readable;
  /** Called whenever it has printed something. */
  onOutput?: () => void;
}

/** How a run of a client ended. */
export interface ClientEnd {
  /** Null: a signal ended it. */
  exitCode: number | null;
  /** All that it printed. DATABASE_NOT_READY where that is more than anybody reads. */
  stdout(): string;
  /** What it said of its failure, without the password. */
  errorTail: string;
}

/**
 * Runs psql or mariadb against a database, in an environment of its own: neither settings of the machine nor those of
 * whoever runs us count, and the password is in that environment alone. DATABASE_NOT_READY when the client is not there.
 */
export async function runClient(context: Context, address: Address, { args, ...io }: ClientRun): Promise<ClientEnd> {
  const client = engineClients[address.engine];
  const { exitCode, stdout, stderr } = await runProgram(context, [client.program, ...client.argsOf(address), ...args], {
    env: { ...basicEnv(context.env), ...client.envOf(address) },
    ...io,
  });
  const said = scrub(stderr, address.password === null ? [] : [address.password]);
  return { exitCode, stdout, errorTail: errorTailOf(address.engine, said) };
}

/** What the client says of itself with `args`: its version, its help. */
export async function askClient(context: Context, engine: Address["engine"], args: readonly string[]): Promise<string> {
  const { program } = engineClients[engine];
  const { stdout } = await runProgram(context, [program, ...args], { env: basicEnv(context.env) });
  return stdout();
}

/** HOME: certificates of authorities are found below it. */
const basicEnv = (env: Env): Record<string, string> =>
  Object.fromEntries(
    ["PATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT"].flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );

async function runProgram(
  context: Context,
  argv: Argv,
  { env, input, onOutput }: { env: Record<string, string> } & Omit<ClientRun, "args">,
): Promise<Pick<ClientEnd, "exitCode" | "stdout"> & { stderr: string }> {
  const [program] = argv;
  const deadline = context.clock.abortAfter(runMsMax);
  const stop = AbortSignal.any([context.signal, deadline]);
  const child = spawnProgram(argv, { cwd: context.cwd, env, stdio: ["pipe", "pipe", "pipe"] });
  const end = () => {
    child.kill("SIGTERM");
    context.clock.after(killMs, () => child.kill("SIGKILL")).unref();
  };
  stop.addEventListener("abort", end, { once: true });
  let [printed, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    if (printed.length <= outputCharactersMax) printed += chunk;
    onOutput?.();
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr = (stderr + chunk).slice(-errorCharacters);
  });
  const missing = new Promise<never>((_resolve, reject) => {
    child.once("error", (cause) => reject(cannotStart(program, cause)));
  });
  // What feeds it fails when the client ends first, and then the client says why.
  let inputError: unknown;
  const fed =
    input === undefined
      ? child.stdin.on("error", () => {}).end()
      : pipeline(input, child.stdin).catch((thrown: unknown) => {
          inputError = thrown;
          if (!isCut(thrown)) child.kill("SIGKILL");
        });
  try {
    const [exitCode] = (await Promise.race([once(child, "close"), missing])) as [number | null];
    await fed;
    context.signal.throwIfAborted();
    if (inputError !== undefined && !isCut(inputError)) throw inputError;
    return { exitCode, stdout: () => whole(program, printed), stderr };
  } finally {
    stop.removeEventListener("abort", end);
  }
}

function whole(program: string, printed: string): string {
  if (printed.length <= outputCharactersMax) return printed;
  throw new CliError("DATABASE_NOT_READY", `${program} printed more than ${outputCharactersMax} characters`, {
    hint: "Look with `svc db schema` at what the database has so much of",
  });
}

const isCut = (thrown: unknown): boolean =>
  thrown instanceof Error &&
  "code" in thrown &&
  (thrown.code === "EPIPE" || thrown.code === "ERR_STREAM_PREMATURE_CLOSE");

function cannotStart(program: string, cause: Error): CliError {
  const isMissing = "code" in cause && cause.code === "ENOENT";
  return new CliError(
    "DATABASE_NOT_READY",
    isMissing ? missingMessage(program) : `${program} cannot be started: ${cause.message}`,
    {
      cause,
      hint: `Install ${program} on this machine, then run the command again`,
    },
  );
}
