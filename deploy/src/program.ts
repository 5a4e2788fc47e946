import type { ChildProcess } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Clock } from "@svc/runtime/clock";
import { type Argv, spawnProgram } from "@svc/runtime/programs";
import { pause, sleep } from "@svc/runtime/sleep";
import { type LogFile, openLogFile } from "./log-file.ts";
import { endProcess, identify, type ProcessId, signalProcess } from "./process-id.ts";

/** How to run one program of the platform. */
export interface ProgramSpec {
  name: string;
  argv: Argv;
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** Options of setpriv(1) that give up rights; none by default. */
  privileges?: readonly string[];
  /**
   * `line`: it prints a JSON line whose `msg` is "ready". Otherwise a probe that is asked again and
   * again; it answers false, or throws, while the program does not serve yet.
   */
  ready: "line" | ((signal: AbortSignal) => Promise<boolean>);
  readyMs: number;
  stopSignal: NodeJS.Signals;
  /** How long it may take to end by itself once asked. */
  graceMs: number;
}

/** A program did not come up; `message` ends with the last lines of its log. */
export class ProgramError extends Error {
  override readonly name = "ProgramError";
}

/** One program that is kept running until stopped: when it ends by itself it is started again. */
export interface Program {
  readonly name: string;
  /** Null while it does not run. */
  readonly pid: number | null;
  /** Starts it and resolves when it serves; throws `ProgramError` when it ends or stays silent instead. */
  start(): Promise<void>;
  /** Resolves when the present or a coming process serves; throws `ProgramError` after `timeoutMs`. */
  waitReady(timeoutMs: number): Promise<void>;
  /** Sends a signal to the process; what ends by it is started again. */
  kill(signal: NodeJS.Signals): void;
  /** Ends it, by SIGKILL when it takes too long, and leaves it ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** Last lines of its log. */
  tail(lines: number): string;
}

const probeEveryMs = 100;
const probeMs = 2_000;
const firstPauseMs = 200;
const longestPauseMs = 5_000;
/** A process that served this long has recovered from whatever ended the ones before. */
const healthyMs = 10_000;

interface Life {
  child: ChildProcess;
  id: ProcessId;
  /** Settles when the process has ended; says how. */
  ended: Promise<string>;
  /** Resolves to null when it serves, or to why it will not. */
  outcome: Promise<string | null>;
}

export function createProgram(
  clock: Clock,
  spec: ProgramSpec,
  dirs: { runRecords: string; logs: string },
  log: (line: string) => void,
): Program {
  const record = join(dirs.runRecords, `${spec.name}.json`);
  let file: LogFile | null = null;
  let wanted = false;
  let life: Life | null = null;
  let keeping: Promise<void> = Promise.resolve();
  let wake = new AbortController();
  let serving = false;

  const why = (reason: string) => `${spec.name} ${reason}${indent(file?.tail(12) ?? "")}`;

  function launch(): Life {
    file ??= openLogFile(join(dirs.logs, `${spec.name}.log`));
    // The death signal ends the program also when we are killed and cannot stop it.
    const prefix = ["--pdeathsig", spec.stopSignal.slice(3), ...(spec.privileges ?? [])];
    const child = spawnProgram(["setpriv", ...prefix, "--", ...spec.argv], {
      // Its own session: Ctrl-C in the terminal reaches only us, and we stop everything in order.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: spec.env,
      ...(spec.cwd !== undefined && { cwd: spec.cwd }),
    });
    const ended = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(`could not be run: ${error.message}`));
      child.once("exit", (code, signal) =>
        resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`),
      );
    });
    child.stdout?.on("data", (chunk: Buffer) => file?.write(chunk));
    child.stderr?.on("data", (chunk: Buffer) => file?.write(chunk));
    const id = identify(child.pid ?? 0);
    mkdirSync(dirs.runRecords, { recursive: true, mode: 0o700 });
    writeFileSync(record, JSON.stringify({ ...id, stopSignal: spec.stopSignal }), { mode: 0o600 });
    return { child, id, ended, outcome: becomesReady(child, ended) };
  }

  async function becomesReady(child: ChildProcess, ended: Promise<string>): Promise<string | null> {
    const limit = clock.abortAfter(spec.readyMs);
    const done = new AbortController();
    const signal = AbortSignal.any([limit, done.signal]);
    const ready = spec.ready === "line" ? readyLine(child, signal) : probe(clock, spec.ready, signal);
    const late = new Promise<string>((resolve) => {
      limit.addEventListener("abort", () => resolve(`did not serve within ${spec.readyMs / 1000} s`), { once: true });
    });
    try {
      return await Promise.race([ready, late, ended]);
    } finally {
      done.abort();
    }
  }

  /** Runs process after process until told to stop. The first is `first`. */
  async function keep(first: Life): Promise<void> {
    let current = first;
    let pauseMs = firstPauseMs;
    for (;;) {
      const startedAtMs = clock.steadyMs();
      life = current;
      void current.outcome.then((reason) => {
        if (life === current && reason === null) serving = true;
      });
      const end = await current.ended;
      serving = false;
      if (!wanted) return;
      if (clock.steadyMs() - startedAtMs > healthyMs) pauseMs = firstPauseMs;
      log(`${spec.name} ${end}; starting it again`);
      await pause(clock, pauseMs, wake.signal);
      if (!wanted) return;
      pauseMs = Math.min(pauseMs * 2, longestPauseMs);
      current = launch();
    }
  }

  return {
    name: spec.name,
    get pid() {
      return life !== null && life.child.exitCode === null && life.child.signalCode === null
        ? (life.child.pid ?? null)
        : null;
    },
    async start() {
      if (wanted) return;
      wanted = true;
      wake = new AbortController();
      const first = launch();
      life = first;
      const reason = await first.outcome;
      if (reason !== null) {
        wanted = false;
        await endProcess(clock, first.id, spec.graceMs, spec.stopSignal);
        await first.ended;
        life = null;
        throw new ProgramError(why(reason));
      }
      keeping = keep(first);
    },
    async waitReady(timeoutMs) {
      const untilMs = clock.steadyMs() + timeoutMs;
      while (!serving) {
        if (clock.steadyMs() > untilMs) throw new ProgramError(why(`did not serve again within ${timeoutMs / 1000} s`));
        await sleep(clock, probeEveryMs);
      }
    },
    kill(signal) {
      if (life !== null) signalProcess(life.id, signal);
      if (signal === "SIGKILL") serving = false;
    },
    async stop(signal = spec.stopSignal) {
      wanted = false;
      wake.abort();
      if (life !== null) await endProcess(clock, life.id, spec.graceMs, signal);
      await keeping;
      serving = false;
      life = null;
      rmSync(record, { force: true });
      file?.close();
      file = null;
    },
    tail: (lines) => file?.tail(lines) ?? "",
  };
}

const indent = (text: string) => (text === "" ? "" : `; its log ends:\n  ${text.replaceAll("\n", "\n  ")}`);

/** Null once the child printed its ready line; never settles otherwise. */
function readyLine(child: ChildProcess, signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (child.stdout === null) return;
    const lines = createInterface({ input: child.stdout, signal });
    lines.on("line", (line) => {
      if (isReadyLine(line)) resolve(null);
    });
    // Reading lines must not end the flow into the log file.
    lines.once("close", () => child.stdout?.resume());
  });
}

function isReadyLine(line: string): boolean {
  if (!line.includes('"ready"')) return false;
  try {
    const entry: unknown = JSON.parse(line);
    return typeof entry === "object" && entry !== null && "msg" in entry && entry.msg === "ready";
  } catch {
    return false;
  }
}

/** Null once the probe answered true; never settles otherwise. */
async function probe(clock: Clock, ask: (signal: AbortSignal) => Promise<boolean>, signal: AbortSignal): Promise<null> {
  while (!signal.aborted) {
    const answered = await ask(AbortSignal.any([signal, clock.abortAfter(probeMs)])).catch(() => false);
    if (answered) return null;
    await pause(clock, probeEveryMs, signal);
  }
  return new Promise(() => {});
}
