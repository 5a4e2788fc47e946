import type { Context } from "./context.ts";
import type { Payload } from "./envelope.ts";
import { CliError } from "./errors.ts";
import { cleanDeep } from "./format.ts";
import type { Paint } from "./paint.ts";

/** What a person wrote for one flag or argument: nothing, a switch, a text, or all texts of what takes many. */
export type Raw = string | boolean | readonly string[] | undefined;

/** An option of a command. `spec` is what help shows: `-f, --follow`, `--lines <n>`, `--no-wait`. */
export interface Flag<T> {
  readonly spec: string;
  readonly summary: string;
  /** All that it may be, when that can be told. */
  readonly choices?: readonly string[];
  read(raw: Raw): T;
}

/** A positional argument. `spec` is `<name>` when it must be given, `[name]` when not, `<name...>` when it takes the rest. */
export interface Argument<T> {
  readonly spec: string;
  readonly summary: string;
  readonly choices?: readonly string[];
  /** What the platform is asked for when a shell wants to complete it. */
  readonly completes?: "nodes" | "databases" | "volumes" | "dropped";
  read(raw: Raw): T;
}

const asText = (raw: Raw): string | undefined => (typeof raw === "string" ? raw : undefined);

/** Reads a whole number; anything else is a usage error that names `what`. */
function readInteger(what: string, text: string): number {
  if (/^[+-]?\d{1,15}$/.test(text)) return Number(text);
  throw new CliError("CLI_INVALID_USAGE", `${what} needs a whole number, not "${text}"`, {
    hint: `Write it in digits: \`${what.replace(/<.*>/, "50")}\``,
  });
}

function readChoice<const V extends string>(what: string, text: string, choices: readonly V[]): V {
  const chosen = choices.find((choice) => choice === text);
  if (chosen !== undefined) return chosen;
  throw new CliError("CLI_INVALID_USAGE", `${what} is one of ${choices.join(", ")}, not "${text}"`, {
    hint: `Choose one: \`${what.replace(/<.*>/, choices[0] ?? "")}\``,
  });
}

export const flag = {
  /** A switch. With a `--no-` spec it is true until somebody gives it. */
  toggle: (spec: string, summary: string): Flag<boolean> => ({
    spec,
    summary,
    read: (raw) => (typeof raw === "boolean" ? raw : spec.startsWith("--no-")),
  }),
  text: (spec: string, summary: string): Flag<string | undefined> => ({ spec, summary, read: asText }),
  /** A whole number, which may be negative; undefined when not given. Who reads it knows what it means. */
  integer: (spec: string, summary: string): Flag<number | undefined> => ({
    spec,
    summary,
    read: (raw) => (typeof raw === "string" ? readInteger(spec.replace(/^-\w, /, ""), raw) : undefined),
  }),
  choice: <const V extends string>(spec: string, summary: string, choices: readonly V[]): Flag<V | undefined> => ({
    spec,
    summary: `${summary} (${choices.join(", ")})`,
    choices,
    read: (raw) => (typeof raw === "string" ? readChoice(spec, raw, choices) : undefined),
  }),
  /** Some of what it may be, each once; empty when not given. `spec` is `--channel <channel...>`. */
  choices: <const V extends string>(spec: string, summary: string, choices: readonly V[]): Flag<readonly V[]> => ({
    spec,
    summary: `${summary} (${choices.join(", ")})`,
    choices,
    read: (raw) => [...new Set(typeof raw === "object" ? raw.map((text) => readChoice(spec, text, choices)) : [])],
  }),
  /** The project to act on, for every command that has one. */
  project: {
    spec: "--project <slug or id>",
    summary: "Project to act on; default: the one this directory is linked to",
    read: asText,
  } satisfies Flag<string | undefined>,
};

export const argument = {
  required: (name: string, summary: string): Argument<string> => ({
    spec: `<${name}>`,
    summary,
    read: (raw) => asText(raw) ?? "",
  }),
  choice: <const V extends string>(name: string, summary: string, choices: readonly V[]): Argument<V> => ({
    spec: `<${name}>`,
    summary: `${summary} (${choices.join(", ")})`,
    choices,
    read: (raw) => readChoice(`<${name}>`, asText(raw) ?? "", choices),
  }),
  optional: (name: string, summary: string): Argument<string | undefined> => ({
    spec: `[${name}]`,
    summary,
    read: asText,
  }),
  /** One or more texts; the last argument of its command. */
  many: (name: string, summary: string): Argument<readonly string[]> => ({
    spec: `<${name}...>`,
    summary,
    read: (raw) => (typeof raw === "object" ? raw : []),
  }),
};

type Flags = Readonly<Record<string, Flag<unknown>>>;
type Arguments = Readonly<Record<string, Argument<unknown>>>;
type Values<F> = { [K in keyof F]: F[K] extends { read(raw: Raw): infer T } ? T : never };

/** How a payload is shown to a person. `columns` is how wide the terminal is; null where none shows it. */
export interface Screen {
  paint: Paint;
  now: Date;
  columns: number | null;
}

/** A command as its file writes it: what it is called, what it takes, what it does, how its result reads. */
export interface CommandDefinition<F extends Flags, A extends Arguments, P extends Payload> {
  /** The words that are typed, "projects list". Joined by dots they are the envelope's `operation`. */
  readonly name: string;
  readonly summary: string;
  /** More for --help, when the summary does not say it all. */
  readonly details?: string;
  readonly flags?: F;
  readonly arguments?: A;
  /** Complete command lines, with long flags. */
  readonly examples: readonly string[];
  /** It speaks a protocol on stdout by itself: there is no envelope there, and nothing else. */
  readonly ownsStdout?: true;
  run(context: Context, values: Values<F> & Values<A>): Promise<P>;
  /** The payload for a person, without a final line feed; empty: nothing is printed. Every text in it is free of control characters. */
  render(payload: P, screen: Screen): string;
  /**
   * Exit status of a run that did what it was asked for; default: 0. For commands whose finding may be a bad one, and
   * those that run a program of the person's own.
   */
  exitCode?(payload: P): number;
}

/** What a command produced: the fields of its envelope, the same for a person, and the exit status. */
export interface Outcome {
  payload: Payload;
  render(screen: Screen): string;
  exitCode: number;
}

/** Any command, its types closed over. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly details: string | undefined;
  readonly flags: Flags;
  readonly arguments: Arguments;
  readonly examples: readonly string[];
  readonly ownsStdout: boolean;
  /** `raw` has what was typed, by the keys of `flags` and `arguments`. A bad value is CLI_INVALID_USAGE. */
  execute(context: Context, raw: Readonly<Record<string, Raw>>): Promise<Outcome>;
}

export function command<
  const P extends Payload,
  const F extends Flags = Record<never, never>,
  const A extends Arguments = Record<never, never>,
>(definition: CommandDefinition<F, A, P>): Command {
  const readers: [string, Flag<unknown> | Argument<unknown>][] = [
    ...Object.entries<Flag<unknown>>(definition.flags ?? {}),
    ...Object.entries<Argument<unknown>>(definition.arguments ?? {}),
  ];
  return {
    name: definition.name,
    summary: definition.summary,
    details: definition.details,
    flags: definition.flags ?? {},
    arguments: definition.arguments ?? {},
    examples: definition.examples,
    ownsStdout: definition.ownsStdout ?? false,
    async execute(context, raw) {
      // Each key gets what its own reader returns, which is what the type says.
      const values = Object.fromEntries(readers.map(([key, reader]) => [key, reader.read(raw[key])])) as Values<F> &
        Values<A>;
      const payload = await definition.run(context, values);
      return {
        payload,
        render: (screen) => definition.render(cleanDeep(payload), screen),
        exitCode: definition.exitCode?.(payload) ?? 0,
      };
    },
  };
}
