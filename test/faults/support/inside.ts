import type { ChildProcess } from "node:child_process";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { finished } from "node:stream/promises";
import { type Argv, argv, spawnProgram } from "@svc/runtime/programs";
import { childrenOf } from "../../support/host.ts";
import { waitFor } from "../../support/wait-for.ts";

/** A process of one of the machines. */
export interface Inside {
  /** Its number on the machine of the tests. */
  readonly pid: number;
  readonly running: boolean;
  /** Settles when it has ended. */
  readonly ended: Promise<void>;
  /** Resolves with the first line of its output that `matches` accepts; throws when it ends or takes longer instead. */
  line(what: string, matches: (line: string) => boolean, timeoutMs: number): Promise<string>;
  /** Sends a signal to the process itself. What was stopped by SIGSTOP goes on with SIGCONT. */
  kill(signal: NodeJS.Signals): void;
  /** Asks it to end, makes it after `graceMs`, and resolves once it has. */
  stop(graceMs: number): Promise<void>;
}

export interface InsideOptions {
  /** First process of the machine. */
  init: number;
  argv: Argv;
  env: NodeJS.ProcessEnv;
  /** What it prints is added here. */
  logFile: string;
}

/** Ends a test that hangs. */
const startMs = 60_000;

/**
 * Starts a program on the machine whose first process is `init`. It ends when this process does, however that is.
 */
export async function startInside({ init, argv: program, env, logFile }: InsideOptions): Promise<Inside> {
  // The outer process only waits for the inner one, which has a number on its machine and another one here.
  const dies = argv("setpriv", "--pdeathsig", "KILL", "--");
  const enter = argv("nsenter", "--target", String(init), "--net", "--mount", "--uts", "--ipc", "--pid", "--");
  const outer = spawnProgram([...dies, ...enter, ...dies, ...program], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env,
  });
  const log = createWriteStream(logFile, { flags: "a", mode: 0o600 });
  const lines = collectLines(outer, log);
  const ended = new Promise<void>((resolve) => {
    outer.once("error", () => resolve());
    outer.once("exit", () => resolve());
  });
  void ended.then(() => finished(log.end()).catch(() => {}));
  const isRunning = () => outer.exitCode === null && outer.signalCode === null && outer.pid !== undefined;
  const pid = await waitFor(`${program[0]} to start`, startMs, async () =>
    isRunning() ? (await childrenOf(outer.pid ?? 0))[0] : "ended",
  );
  if (pid === "ended") throw new Error(`${program[0]} ended at once; see ${logFile}`);
  const kill = (signal: NodeJS.Signals) => {
    if (!isRunning()) return;
    sendSignal(pid, signal);
    // The outer one stops together with the inner one, and neither sees what is sent to the other.
    if (signal === "SIGCONT" && outer.pid !== undefined) sendSignal(outer.pid, signal);
  };
  return {
    pid,
    get running() {
      return isRunning();
    },
    ended,
    async line(what, matches, timeoutMs) {
      const found = await waitFor(what, timeoutMs, () => lines.find(matches) ?? !isRunning());
      if (found === true) throw new Error(`${what}: it has ended; see ${logFile}`);
      return found;
    },
    kill,
    async stop(graceMs) {
      kill("SIGTERM");
      const timer = setTimeout(() => kill("SIGKILL"), graceMs);
      await ended;
      clearTimeout(timer);
    },
  };
}

const linesKept = 1_000;

function collectLines(child: ChildProcess, log: NodeJS.WritableStream): string[] {
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on("line", (line) => {
      log.write(`${line}\n`);
      lines.push(line);
      if (lines.length > linesKept) lines.shift();
    });
  }
  return lines;
}

/** Sends a signal to a process by its number on the machine of the tests; fine when it has ended. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    const gone = error instanceof Error && "code" in error && error.code === "ESRCH";
    if (!gone) throw error;
  }
}
