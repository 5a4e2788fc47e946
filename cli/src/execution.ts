import { stripControl } from "@svc/proto";
import type { Outcome, Screen } from "./command.ts";
import { createRun, type Globals } from "./context.ts";
import { errorEnvelope, successEnvelope } from "./envelope.ts";
import { isGitHubActions } from "./environment.ts";
import { errorText } from "./error-text.ts";
import { CliError, exitCodes, Interrupted, interruptExitCodes, toCliError } from "./errors.ts";
import { inertForActions } from "./format.ts";
import { columnsOf, type Host } from "./host.ts";
import { explainNotFound } from "./link-trouble.ts";
import { coloured, plain, wantsColour } from "./paint.ts";
import type { Request } from "./program.ts";
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

/** Prints what is wrong with a command line that could not be read, and returns the exit status. */
export function refuseLine(thrown: unknown, argv: readonly string[], host: Host, operation: string): number {
  const globals = globalsOfBrokenLine(argv);
  const terminal = openTerminal(host, globals);
  return printError(toCliError(thrown), { host, operation, globals, terminal });
}

const openTerminal = ({ clock, stdin, stdout, stderr, env, signal }: Host, globals: Globals): Terminal =>
  createTerminal({ clock, stdin, stdout, stderr, env, signal, ...globals });

/** Runs a command, prints its result or its failure, and returns the exit status. */
export async function runCommand(
  { command, globals: given, raw }: Extract<Request, { kind: "run" }>,
  host: Host,
  operation: string,
): Promise<number> {
  // Where stdout is the command's own, no envelope goes there, whatever happens.
  const globals = command.ownsStdout ? { ...given, json: false } : given;
  const { clock, random, env, cwd, home, stdin, stdout, signal, takeSignals } = host;
  const terminal = openTerminal(host, globals);
  const print = (text: string) => printText(host, text);
  const columns = columnsOf(host);
  const run = createRun({
    ...{ clock, random, env, cwd, home, globals, terminal, columns, stdin, stdout, print, signal, takeSignals },
  });
  try {
    const outcome = await command.execute(run.context, raw);
    terminal.close();
    const { warnings } = run;
    printOutcome(outcome, { host, operation, globals, warnings, columns, now: clock.now() });
    await run.finish();
    const notice =
      terminal.animated && !globals.json ? await updateNotice({ clock, env, home }, run.platformVersion()) : null;
    if (notice !== null) terminal.step(notice);
    return outcome.exitCode;
  } catch (thrown) {
    terminal.close();
    if (signal.aborted || thrown instanceof Interrupted)
      return printInterrupt(run.interruptAdvice(), { host, operation, globals, terminal });
    const error = await explainNotFound(run.context, run.followed(), toCliError(thrown));
    return printError(error, { host, operation, globals, terminal });
  } finally {
    await run.close();
  }
}

interface Printing {
  host: Host;
  operation: string;
  globals: Globals;
  terminal: Terminal;
}

function printOutcome(
  outcome: Outcome,
  {
    host,
    operation,
    globals,
    warnings,
    ...screen
  }: Omit<Printing, "terminal"> & { warnings: string[] } & Omit<Screen, "paint">,
): void {
  const { stdout, env } = host;
  host.conclude();
  if (globals.json) {
    stdout.write(successEnvelope(operation, warnings, outcome.payload));
    return;
  }
  if (globals.quiet) return;
  const colour = wantsColour(env, { isTerminal: stdout.isTTY === true, noColor: globals.noColor });
  printText(host, outcome.render({ paint: colour ? coloured : plain, ...screen }));
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

/** The envelope with --json; else a text on stderr. */
function printError(error: CliError, { host, operation, globals, terminal }: Printing): number {
  host.conclude();
  if (globals.json) host.stdout.write(errorEnvelope(operation, error, terminal.hidden));
  else {
    const inert = inertFor(host, terminal);
    const { code, message, hint } = error;
    const clean = { code, message: inert(message), hint: hint === undefined ? undefined : inert(hint) };
    terminal.tell(errorText(clean, terminal.paint));
  }
  if (error.cause instanceof Error) terminal.verbose(error.cause.stack ?? error.cause.message);
  return exitCodes[error.code];
}

function printInterrupt(advice: string | null, printing: Printing): number {
  const { globals, host, operation, terminal } = printing;
  const name = host.signal.reason === "SIGTERM" ? "SIGTERM" : "SIGINT";
  const error = new CliError("UNEXPECTED", "Interrupted", { hint: advice ?? undefined });
  host.conclude();
  if (globals.json) host.stdout.write(errorEnvelope(operation, error, terminal.hidden));
  else {
    terminal.tell("Interrupted");
    if (advice !== null) terminal.tell(`${terminal.paint("cyan", "→")} ${inertFor(host, terminal)(advice)}`);
  }
  return interruptExitCodes[name];
}
