import type { Readable, Writable } from "node:stream";
import { stripControl } from "@svc/proto";
import { type Clock, every } from "@svc/runtime/clock";
import { type Env, isCi, isGitHubActions } from "./environment.ts";
import { Interrupted } from "./errors.ts";
import { displayWidth, formatDuration, inertForActions } from "./format.ts";
import { coloured, type Paint, plain, wantsColour } from "./paint.ts";
import { scrub } from "./redact.ts";

export type Output = Writable & { isTTY?: boolean; columns?: number };
export type Input = Readable & { isTTY?: boolean };

/** What a line of progress says of itself. */
export type Mark = "note" | "done" | "failed";

/** A line that changes while something goes on; after a moment it says for how long. */
export interface Activity {
  /** Shows `text` instead. Where no terminal shows it, it is what is said of the activity from then on. */
  update(text: string): void;
  /** Takes the line away. May be called twice. */
  stop(): void;
}

/**
 * Everything said besides the result: progress, warnings, questions. All of it goes to stderr, and
 * every text is made inert first, whoever wrote it.
 */
export interface Terminal {
  /** A person sits there: questions may be asked and a browser opened. */
  readonly interactive: boolean;
  readonly paint: Paint;
  /** Somebody watches a line that changes: neither a pipeline nor a file reads what is said. */
  readonly animated: boolean;
  /** A line of progress that stays: what begins or was noticed, was done, or went wrong. */
  step(text: string, mark?: Mark): void;
  /** Output of a build, as it comes; ends in a line feed or not. */
  log(text: string): void;
  warn(text: string): void;
  /** Only with --verbose. */
  verbose(text: string): void;
  /** Said even with --quiet, and printed as it is: errors, and what a person has to do now. */
  tell(text: string): void;
  /** Starts such a line. Where no terminal shows it, `text` is printed as a step, and again when all was silent for 30 s. */
  activity(text: string): Activity;
  /** Asks for one line; null when the person cancels. Only when interactive. Ctrl-C at any question throws. */
  ask(question: string): Promise<string | null>;
  /** Asks for yes or no; null when the person cancels, or says nothing for `withinMs`. Only when interactive. */
  confirm(question: string, options: { initial: boolean; withinMs?: number }): Promise<boolean | null>;
  /** Asks for one of several; null when the person cancels. Only when interactive. */
  choose(question: string, choices: readonly string[]): Promise<string | null>;
  /** The same for a secret: nothing of what is typed appears, and it is hidden from then on. */
  askSecret(question: string): Promise<string | null>;
  /** A secret of this run that must never be shown, whatever text it appears in. */
  hide(secret: string): void;
  readonly hidden: ReadonlySet<string>;
  /** Leaves the terminal as it was found. */
  close(): void;
}

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const frameMs = 90;
const timedAfterMs = 1000;
/** Where no line changes, whoever reads along hears so often that something still goes on. */
const aliveMs = 30_000;
const eraseLine = "\r\u001b[K";

export function createTerminal(options: {
  clock: Clock;
  stdin: Input;
  stdout: Output;
  stderr: Output;
  env: Env;
  json: boolean;
  quiet: boolean;
  verbose: boolean;
  noColor: boolean;
  /** Ends a question, which then throws its reason. */
  signal: AbortSignal;
}): Terminal {
  const { clock, stderr, env } = options;
  const ci = isCi(env);
  const actions = isGitHubActions(env);
  const animated = stderr.isTTY === true && !ci && !options.quiet && env["TERM"] !== "dumb";
  const paint = wantsColour(env, { isTerminal: stderr.isTTY === true, noColor: options.noColor }) ? coloured : plain;
  const hidden = new Set<string>();
  let shown: { text: string; frame: number; sinceMs: number } | null = null;
  /** What moves the line on; where no terminal shows it, what tells of it when all was silent. */
  let turn = () => {};
  let turning: Disposable | undefined;

  const inert = (text: string): string => {
    const clean = scrub(stripControl(text), hidden);
    return actions ? inertForActions(clean) : clean;
  };
  const draw = () => {
    if (shown === null || !animated) return;
    // Some terminals say that they have no columns at all.
    const room = (stderr.columns || 80) - 3;
    const elapsedMs = clock.steadyMs() - shown.sinceMs;
    const full = elapsedMs < timedAfterMs ? shown.text : `${shown.text}  ${formatDuration(elapsedMs)}`;
    const text = displayWidth(full) > room ? `${full.slice(0, Math.max(0, room - 1))}…` : full;
    stderr.write(`${eraseLine}${paint("cyan", frames[shown.frame % frames.length] ?? "")} ${text}`);
  };
  const keepTurning = () => {
    turning?.[Symbol.dispose]();
    turning = every(clock, animated ? frameMs : aliveMs, turn);
  };
  /** Prints above the changing line, if there is one. */
  const print = (text: string) => {
    if (shown !== null && animated) stderr.write(eraseLine);
    stderr.write(text.endsWith("\n") ? text : `${text}\n`);
    draw();
    if (!animated && turning !== undefined) keepTurning();
  };
  const marks: Readonly<Record<Mark, string>> = {
    note: paint("dim", "›"),
    done: paint("green", "✓"),
    failed: paint("red", "✗"),
  };
  const step = (text: string, mark: Mark = "note") => {
    if (!options.quiet) print(`${marks[mark]} ${inert(text)}`);
  };
  const stop = () => {
    turning?.[Symbol.dispose]();
    turning = undefined;
    if (shown !== null && animated) stderr.write(eraseLine);
    shown = null;
  };

  return {
    interactive: options.stdin.isTTY === true && stderr.isTTY === true && !ci && !options.json,
    animated,
    paint,
    hidden,
    hide: (secret) => hidden.add(secret),
    step,
    log: (text) => {
      if (options.quiet || text === "") return;
      const lines = inert(text).replace(/\n$/, "").split("\n");
      // On a terminal a rule sets the words of somebody's build apart from ours; a file has them as they are.
      print(lines.map((line) => paint("dim", animated ? `│ ${line}` : line)).join("\n"));
    },
    warn: (text) => print(`${paint("yellow", "Warning:")} ${inert(text)}`),
    tell: print,
    verbose: (text) => {
      if (options.verbose) print(paint("dim", `  ${inert(text)}`));
    },
    activity(text) {
      stop();
      const line = { text: inert(text), frame: 0, sinceMs: clock.steadyMs() };
      shown = line;
      if (animated) draw();
      else step(text);
      const nextFrame = () => {
        line.frame++;
        draw();
      };
      const stillAlive = () => step(`${line.text}, ${formatDuration(clock.steadyMs() - line.sinceMs)} so far`);
      turn = animated ? nextFrame : stillAlive;
      keepTurning();
      return {
        update: (next) => {
          line.text = inert(next);
        },
        stop: () => {
          if (shown === line) stop();
        },
      };
    },
    async ask(question) {
      stop();
      const { isCancel, text } = await import("@clack/prompts");
      const answer = await whileOpen(options, (signal) =>
        text({ message: inert(question), input: options.stdin, output: stderr, signal }),
      );
      return isCancel(answer) ? null : answer;
    },
    async confirm(question, { initial, withinMs }) {
      stop();
      const { isCancel, confirm } = await import("@clack/prompts");
      const within = withinMs === undefined ? [] : [clock.abortAfter(withinMs)];
      const answer = await whileOpen(options, (open) => {
        const signal = AbortSignal.any([open, ...within]);
        return confirm({
          message: inert(question),
          initialValue: initial,
          input: options.stdin,
          output: stderr,
          signal,
        });
      });
      return isCancel(answer) ? null : answer;
    },
    async choose(question, choices) {
      stop();
      const { isCancel, select } = await import("@clack/prompts");
      const shownAs = choices.map((value) => ({ value, label: inert(value) }));
      const answer = await whileOpen(options, (signal) =>
        select({ message: inert(question), options: shownAs, input: options.stdin, output: stderr, signal }),
      );
      return isCancel(answer) ? null : answer;
    },
    async askSecret(question) {
      stop();
      const { isCancel, password } = await import("@clack/prompts");
      const answer = await whileOpen(options, (signal) =>
        password({ message: inert(question), mask: "", input: options.stdin, output: stderr, signal }),
      );
      if (isCancel(answer)) return null;
      hidden.add(answer);
      return answer;
    },
    close: stop,
  };
}

/**
 * Asks for as long as anything can be typed, and nobody wants the program to end. Ctrl-D ends a line editor and says so
 * to nobody: its input is let go of, and a question that waited on would be left open when the process runs out of work.
 */
async function whileOpen<T>(
  { clock, stdin, signal }: { clock: Clock; stdin: Input; signal: AbortSignal },
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ended = new AbortController();
  let isAnswered = false;
  let isInterrupted = false;
  // The editor lets go of its input after an answer, too, and that answer is heard first.
  const end = () => clock.soon(() => isAnswered || ended.abort());
  const onKey = (key: string | undefined) => {
    isInterrupted ||= key === ctrlC;
  };
  const events = ["pause", "end", "close"] as const;
  try {
    const answer = ask(AbortSignal.any([signal, ended.signal]));
    for (const event of events) stdin.on(event, end);
    stdin.on("keypress", onKey);
    if (stdin.readableEnded || stdin.destroyed) end();
    const given = await answer;
    signal.throwIfAborted();
    if (isInterrupted) throw new Interrupted();
    return given;
  } finally {
    isAnswered = true;
    for (const event of events) stdin.off(event, end);
    stdin.off("keypress", onKey);
  }
}

const ctrlC = "\u0003";
