import { stripControl } from "@svc/proto";
import type { Host } from "./cli.ts";
import type { Outcome } from "./command.ts";
import { createRun, type Globals } from "./context.ts";
import { errorEnvelope, successEnvelope } from "./envelope.ts";
import { isGitHubActions } from "./environment.ts";
import { CliError, exitCodes, interruptExitCodes, toCliError } from "./errors.ts";
import { inertForActions } from "./format.ts";
import { coloured, plain, wantsColour } from "./paint.ts";
import { operationOf, readCommandLine } from "./program.ts";
import { scrub } from "./redact.ts";
import { createTerminal, type Terminal } from "./terminal.ts";
import { updateNotice } from "./update-notice.ts";

/** As far as they can be known when the command line itself is wrong. */
const globalsOfBrokenLine = (argv: readonly string[]): Globals => ({
  manifest: "svc.yml",
  manifestNamed: false,
  json: argv.includes("--json"),
  yes: false,
  verbose: argv.includes("--verbose"),
  quiet: argv.includes("--quiet"),
  noColor: argv.includes("--no-color"),
});

/** Reads the command line, runs what it asks for, prints the result or the error, and returns the exit status. */
export async function runRequest(argv: readonly string[], host: Host): Promise<number> {
  const operation = operationOf(argv);
  try {
    const request = await readCommandLine(argv);
    if (request.kind === "help") {
      const json = argv.includes("--json");
      host.stdout.write(json ? successEnvelope("help", [], { help: request.text }) : request.text);
      return 0;
    }
    return await runCommand(request.globals, host, operation, (context) =>
      request.command.execute(context, request.raw),
    );
  } catch (thrown) {
    // Only reading the command line fails here: a command's own failure is told below.
    const globals = globalsOfBrokenLine(argv);
    const terminal = openTerminal(host, globals);
    return printError(toCliError(thrown), { host, operation, globals, terminal });
  }
}

const openTerminal = ({ stdin, stdout, stderr, env }: Host, globals: Globals): Terminal =>
  createTerminal({ stdin, stdout, stderr, env, ...globals });

async function runCommand(
  globals: Globals,
  host: Host,
  operation: string,
  execute: (context: ReturnType<typeof createRun>["context"]) => Promise<Outcome>,
): Promise<number> {
  const { env, cwd, home, stdin, signal } = host;
  const terminal = openTerminal(host, globals);
  const print = (text: string) => printText(host, text);
  const run = createRun({ env, cwd, home, globals, terminal, stdin, print, signal });
  try {
    const outcome = await execute(run.context);
    terminal.close();
    printOutcome(outcome, { host, operation, globals, warnings: run.warnings, now: run.context.now() });
    const notice = terminal.animated && !globals.json ? await updateNotice({ env, home }, run.platformVersion()) : null;
    if (notice !== null) terminal.step(notice);
    return 0;
  } catch (thrown) {
    terminal.close();
    if (signal.aborted) return printInterrupt(run.interruptAdvice(), { host, operation, globals, terminal });
    return printError(toCliError(thrown), { host, operation, globals, terminal });
  } finally {
    await run.close();
  }
}

type Printing = { host: Host; operation: string; globals: Globals; terminal: Terminal };

function printOutcome(
  outcome: Outcome,
  { host, operation, globals, warnings, now }: Omit<Printing, "terminal"> & { warnings: string[]; now: Date },
): void {
  const { stdout, env } = host;
  if (globals.json) {
    stdout.write(successEnvelope(operation, warnings, outcome.payload));
    return;
  }
  if (globals.quiet) return;
  const colour = wantsColour(env, { isTerminal: stdout.isTTY === true, noColor: globals.noColor });
  const columns = stdout.isTTY === true ? stdout.columns || null : null;
  printText(host, outcome.render({ paint: colour ? coloured : plain, now, columns }));
}

/** Writes a text for people to stdout, ended by a line feed. */
function printText({ stdout, env }: Host, text: string): void {
  const inert = isGitHubActions(env) ? inertForActions(text) : text;
  if (inert !== "") stdout.write(inert.endsWith("\n") ? inert : `${inert}\n`);
}

/** Makes a text harmless for whatever reads stderr, whoever wrote it. */
const inertFor =
  ({ env }: Host, terminal: Terminal) =>
  (text: string) => {
    const clean = scrub(stripControl(text), terminal.hidden);
    return isGitHubActions(env) ? inertForActions(clean) : clean;
  };

/** The envelope with --json; else two lines on stderr: what is wrong, and what to type next. */
function printError(error: CliError, { host, operation, globals, terminal }: Printing): number {
  if (globals.json) host.stdout.write(errorEnvelope(operation, error, terminal.hidden));
  else {
    const { paint } = terminal;
    const inert = inertFor(host, terminal);
    const [first = "", ...more] = inert(error.message).split("\n");
    terminal.tell([`${paint("red", "Error:")} ${first} ${paint("dim", `(${error.code})`)}`, ...more].join("\n"));
    if (error.hint !== undefined) terminal.tell(`${paint("cyan", "→")} ${inert(error.hint)}`);
  }
  if (error.cause instanceof Error) terminal.verbose(error.cause.stack ?? error.cause.message);
  return exitCodes[error.code];
}

function printInterrupt(advice: string | null, printing: Printing): number {
  const { globals, host, operation, terminal } = printing;
  const name = host.signal.reason === "SIGTERM" ? "SIGTERM" : "SIGINT";
  const error = new CliError("UNEXPECTED", "Interrupted", { hint: advice ?? undefined });
  if (globals.json) host.stdout.write(errorEnvelope(operation, error, terminal.hidden));
  else {
    terminal.tell("Interrupted");
    if (advice !== null) terminal.tell(`${terminal.paint("cyan", "→")} ${inertFor(host, terminal)(advice)}`);
  }
  return interruptExitCodes[name];
}
