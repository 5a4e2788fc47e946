import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";
import { readStdin } from "./stdin.ts";

/**
 * A secret: from a hidden prompt where a person sits, else all that comes on stdin, without the line feed at its
 * end. It is never an argument, and hidden in whatever is said from then on. CLI_INVALID_USAGE when there is none.
 */
export async function readSecret(
  context: Context,
  { question, bytesMax, example }: { question: string; bytesMax: number; example: string },
): Promise<string> {
  const { terminal, stdin } = context;
  const missing = (why: string) => new CliError("CLI_INVALID_USAGE", why, { hint: `Pass it on stdin: \`${example}\`` });
  if (stdin.isTTY === true && !terminal.interactive) throw missing("The secret cannot be asked for here");
  const tooLarge = () => missing(`The secret has more than ${bytesMax} bytes`);
  // Two for a line feed as Windows writes it.
  const fed = () => readStdin(context, { bytesMax: bytesMax + 2, tooLarge, missing });
  const text = terminal.interactive ? await terminal.askSecret(question) : await fed();
  if (text === null) throw missing("No secret was given; nothing was changed");
  const secret = text.replace(/\r?\n$/, "");
  if (secret === "") throw missing("The secret is empty");
  terminal.hide(secret);
  return secret;
}
