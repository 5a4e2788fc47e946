import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Env } from "./environment.ts";
import type { Input, Output } from "./terminal.ts";

/** What may ask a program to end. */
export type EndSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

/**
 * Has each wish to end told to `hear`, until it is disposed: for who passes it on to a program and ends with that. The
 * host's signal is aborted by the first all the same; a second one does not end the process.
 */
export type TakeSignals = (hear: (name: EndSignal) => void) => Disposable;

/** The process, as far as a run needs it. */
export interface Host {
  clock: Clock;
  random: Random;
  env: Env;
  cwd: string;
  home: string;
  stdin: Input;
  stdout: Output;
  stderr: Output;
  /** Aborted by Ctrl-C or a request to end; the reason is the signal's name. */
  signal: AbortSignal;
  takeSignals: TakeSignals;
  /** Its result is known and only has to be said: the process ends with the status of that, also where nobody reads it. */
  conclude(): void;
}

/** How wide the terminal is; null where none shows the result. */
export const columnsOf = ({ stdout }: Host): number | null => (stdout.isTTY === true ? stdout.columns || null : null);
