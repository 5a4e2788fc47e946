import { rm } from "node:fs/promises";
import { resolve } from "node:path";
import type { AlertWebhook } from "@svc/proto";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { fillFile, reserveFile, unwritten } from "../new-file.ts";

/**
 * Writes the secret of a webhook that `ask` gets to a new file, and returns the rest of the reply. The place is taken before
 * there is a secret, so that a wrong path costs nothing.
 */
export async function keepSecret(
  context: Context,
  { file, example }: { file: string | undefined; example: string },
  ask: () => Promise<{ webhook: AlertWebhook; secret: string }>,
): Promise<{ webhook: AlertWebhook; file: string }> {
  if (file === undefined)
    throw new CliError("CLI_INVALID_USAGE", "--file <new-path> is missing", {
      hint: `Say where the secret goes: \`${example}\``,
    });
  const path = resolve(context.cwd, file);
  await reserveFile(path);
  try {
    const { webhook, secret } = await ask();
    context.terminal.hide(secret);
    await fillFile(path, secret).catch((thrown: unknown) => {
      throw unwritten(path, thrown, ". For another secret run `svc alerts webhook rotate`");
    });
    return { webhook, file };
  } catch (thrown) {
    await rm(path, { force: true });
    throw thrown;
  }
}
