import type { ChildProcess } from "node:child_process";
import { constants } from "node:os";
import type { Clock } from "@svc/runtime/clock";
import { type ProgramFile, spawnProgram } from "@svc/runtime/programs";
import { sleep } from "@svc/runtime/sleep";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { EndSignal } from "../host.ts";

/** How long a program may take to end once it was asked to, before it is asked in another way. */
const graceMs = 5000;
const lookMs = 50;

export interface ChildOptions {
  argv: readonly [ProgramFile, ...string[]];
  cwd: string;
  env: NodeJS.ProcessEnv;
}

/** How a program ended: its exit status, as a shell has it where a signal ended it. */
export interface ChildEnd {
  exitCode: number;
  /** Whether somebody asked us to end, which we passed on. */
  wasAsked: boolean;
}

/** Where its output goes: to this terminal, or with --json all of it to stderr, since stdout has the envelope. */
const stdioOf = ({ globals }: Context) => ["inherit", globals.json ? 2 : 1, 2] as const;

/**
 * Runs a server in the foreground, in a process group of its own, and waits for all of it to end. Whatever asks us to end is
 * passed on to the group; who asks again has it killed. `onStart` is told once it runs.
 */
export async function runServer(
  context: Context,
  { argv: [program, ...args], cwd, env }: ChildOptions,
  onStart: () => void = () => {},
): Promise<ChildEnd> {
  const { clock } = context;
  const child = spawnProgram([program, ...args], { cwd, env, stdio: [...stdioOf(context)], detached: true });
  const group = child.pid;
  let asked = 0;
  const escalation = new AbortController();
  const hear = (name: EndSignal) => {
    asked++;
    if (group === undefined) return;
    if (asked > 1) signalGroup(group, "SIGKILL");
    else escalate(clock, group, name, escalation.signal);
  };
  using _taken = context.takeSignals(hear);
  using _passed = passOn(group);
  // Should we end in some other way, nothing may go on behind our back.
  const killAll = () => group !== undefined && signalGroup(group, "SIGKILL");
  process.once("exit", killAll);
  try {
    const ended = endOf(child, program);
    if (group !== undefined) onStart();
    // Asked before there was anybody to pass it on to.
    if (context.signal.aborted && asked === 0) hear(asEndSignal(context.signal.reason));
    const exitCode = await ended;
    escalation.abort();
    if (group !== undefined) await endGroup(clock, group);
    return { exitCode, wasAsked: asked > 0 };
  } finally {
    escalation.abort();
    process.off("exit", killAll);
  }
}

/**
 * Runs a command in our place: in our own process group, so that a terminal is all its own, and Ctrl-C there reaches it
 * without us. Ends when it does.
 */
export async function runInPlace(context: Context, { argv, cwd, env }: ChildOptions): Promise<ChildEnd> {
  const [program, ...args] = argv;
  const child = spawnProgram([program, ...args], { cwd, env, stdio: [...stdioOf(context)] });
  let asked = 0;
  using _taken = context.takeSignals((name) => {
    asked++;
    if (name !== "SIGINT" || context.stdin.isTTY !== true) child.kill(name);
  });
  if (context.signal.aborted && asked === 0) child.kill(asEndSignal(context.signal.reason));
  return { exitCode: await endOf(child, program), wasAsked: asked > 0 };
}

const asEndSignal = (reason: unknown): EndSignal => (reason === "SIGTERM" || reason === "SIGHUP" ? reason : "SIGINT");

function endOf(child: ChildProcess, program: string): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", (cause) => {
      if (child.pid !== undefined) return;
      reject(
        new CliError("CLI_INVALID_USAGE", `${program} cannot be started: ${cause.message}`, {
          cause,
          hint: "See that it is a program for this machine, and that you may run it",
        }),
      );
    });
    child.once("exit", (status, signal) =>
      resolve(status ?? 128 + (signal === null ? 0 : (constants.signals[signal] ?? 0))),
    );
  });
}

/** Asks a group to end: as we were asked, then with SIGTERM, then with SIGKILL. */
function escalate(clock: Clock, group: number, first: EndSignal, signal: AbortSignal): void {
  const steps = [first, "SIGTERM", "SIGKILL"] as const;
  const next = async () => {
    for (const [at, name] of steps.entries()) {
      if (at > 0) await sleep(clock, graceMs, signal);
      signalGroup(group, name);
    }
  };
  // It has ended by itself.
  next().catch(() => {});
}

/** Ends what the server has left running in its group. */
async function endGroup(clock: Clock, group: number): Promise<void> {
  if (!signalGroup(group, "SIGTERM")) return;
  const untilMs = clock.steadyMs() + graceMs;
  while (signalGroup(group, 0)) {
    if (clock.steadyMs() > untilMs) {
      signalGroup(group, "SIGKILL");
      return;
    }
    await sleep(clock, lookMs);
  }
}

/** False when nobody is in the group any more. */
function signalGroup(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, name);
  } catch {
    return false;
  }
}

/** What a terminal tells its foreground group, which a server in a group of its own would not hear. */
function passOn(group: number | undefined): Disposable {
  if (group === undefined || process.platform === "win32") return { [Symbol.dispose]: () => {} };
  const onResize = () => signalGroup(group, "SIGWINCH");
  const onStop = () => {
    signalGroup(group, "SIGSTOP");
    process.kill(process.pid, "SIGSTOP");
  };
  const onContinue = () => signalGroup(group, "SIGCONT");
  process.on("SIGWINCH", onResize).on("SIGTSTP", onStop).on("SIGCONT", onContinue);
  return {
    [Symbol.dispose]: () => {
      process.off("SIGWINCH", onResize).off("SIGTSTP", onStop).off("SIGCONT", onContinue);
    },
  };
}
