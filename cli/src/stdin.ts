import type { Context } from "./context.ts";
import type { CliError } from "./errors.ts";

/** How long whatever feeds us may take, its own question for a passphrase included. */
const stdinMsMax = 5 * 60_000;

/** All that comes on stdin. Throws `tooLarge()` past `bytesMax`, and `missing(why)` when nothing comes to its end. */
export async function readStdin(
  { clock, stdin, signal }: Context,
  { bytesMax, tooLarge, missing }: { bytesMax: number; tooLarge(): CliError; missing(why: string): CliError },
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
      if (sizeBytes > bytesMax) throw tooLarge();
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
