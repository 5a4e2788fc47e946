import { runInNewContext } from "node:vm";
import { CliError } from "../errors.ts";

/** Keeps the lines that fit an expression. */
export type Grep = (lines: readonly string[]) => string[];

const budgetMs = 1000;
const lineLengthMax = 16 * 1024;
const timedOut = "ERR_SCRIPT_EXECUTION_TIMEOUT";

/**
 * A filter for `--grep`. CLI_INVALID_USAGE when `source` is no regular expression, and later when it
 * needs more than a second for the lines it is given: whoever writes a log must not be able to hang
 * whoever reads it. Only the first 16 Ki characters of a line are looked at.
 */
export function createGrep(source: string): Grep {
  try {
    new RegExp(source);
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : "";
    throw new CliError("CLI_INVALID_USAGE", `--grep: ${why}`, {
      hint: "Quote the expression, for example --grep 'error|warn'",
    });
  }
  return (lines) => {
    const fits = matches(source, lines);
    return lines.filter((_, at) => fits[at] === "1");
  };
}

/** One character per line, "1" where the expression fits. A script in a context of its own can be ended when its time is up. */
function matches(source: string, lines: readonly string[]): string {
  const script =
    'const expression = new RegExp(source); lines.map((line) => (expression.test(line) ? "1" : "0")).join("")';
  const sandbox = { source, lines: lines.map((line) => line.slice(0, lineLengthMax)) };
  try {
    return String(runInNewContext(script, sandbox, { timeout: budgetMs }));
  } catch (thrown) {
    // Not instanceof: the error is made in the other context, by its own classes.
    if (typeof thrown === "object" && thrown !== null && "code" in thrown && thrown.code === timedOut)
      throw new CliError("CLI_INVALID_USAGE", "--grep: this expression takes too long on these lines", {
        hint: "Write it without nested repetition such as (a+)+",
      });
    throw thrown;
  }
}
