import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";

/** How long whatever feeds us may take, its own question for a passphrase included. */
const stdinMsMax = 5 * 60_000;

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
  const text = terminal.interactive ? await terminal.askSecret(question) : await readStdin(context, bytesMax, missing);
  if (text === null) throw missing("No secret was given; nothing was changed");
  const secret = text.replace(/\r?\n$/, "");
  if (secret === "") throw missing("The secret is empty");
  terminal.hide(secret);
  return secret;
}

async function readStdin(
  { clock, stdin, signal }: Context,
  bytesMax: number,
  missing: (why: string) => CliError,
): Promise<string> {
  const deadline = clock.abortAfter(stdinMsMax);
  const stop = () => stdin.destroy();
  const ended = AbortSignal.any([signal, deadline]);
  ended.addEventListener("abort", stop, { once: true });
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of stdin as AsyncIterable<Buffer | string>) {
      const bytes = Buffer.from(chunk);
      sizeBytes += bytes.length;
      // Two for a line feed as Windows writes it.
      if (sizeBytes > bytesMax + 2) throw missing(`The secret has more than ${bytesMax} bytes`);
      chunks.push(bytes);
    }
  } catch (thrown) {
    if (!ended.aborted) throw thrown;
  } finally {
    ended.removeEventListener("abort", stop);
  }
  signal.throwIfAborted();
  if (deadline.aborted) throw missing("Nothing came on stdin");
  return Buffer.concat(chunks).toString("utf8");
}
