import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Env } from "./environment.ts";
import type { Input, Output } from "./terminal.ts";

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
}

/** How wide the terminal is; null where none shows the result. */
export const columnsOf = ({ stdout }: Host): number | null => (stdout.isTTY === true ? stdout.columns || null : null);
