import { CliError } from "../errors.ts";
import { createGrep } from "./grep.ts";
import { isSince, parseSince } from "./since.ts";

/** What the flags leave of some lines of a log. */
export type Filter = (lines: readonly string[]) => string[];

/** Reads --since and --grep; CLI_INVALID_USAGE for what is wrong with them. */
export function createFilter(now: Date, since: string | undefined, grep: string | undefined): Filter {
  const from = since === undefined ? null : parseSince(since, now);
  if (since !== undefined && from === null)
    throw new CliError("CLI_INVALID_USAGE", `--since: "${since}" is neither a span nor a timestamp`, {
      hint: "Write 90s, 15m, 1h30m, 2d, or an ISO timestamp such as 2030-01-31T12:00:00Z",
    });
  const fits = grep === undefined ? null : createGrep(grep);
  return (lines) => {
    const young = from === null ? lines : lines.filter((line) => isSince(line, from));
    return fits === null ? [...young] : fits(young);
  };
}
