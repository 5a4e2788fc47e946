import type { Context } from "./context.ts";
import { CliError } from "./errors.ts";

const code = "DESTRUCTIVE_CONFIRMATION_REQUIRED";

/**
 * Lets a destructive command go on: with --yes, or when the person types `name` to say what will be lost.
 * Where nobody can be asked it ends with exit 6, before anything was called.
 */
export async function confirmLoss(context: Context, { loss, name }: { loss: string; name: string }): Promise<void> {
  requireAnswerable(context, loss);
  if (context.globals.yes) return;
  const answer = await context.terminal.ask(`${loss} Type ${name} to go on`);
  if (answer?.trim() !== name)
    throw new CliError(code, "Not confirmed; nothing was changed", {
      hint: `Run the same command again and type ${name}, or run it with --yes`,
    });
}

/** Fails where a confirmation is needed, was not given with --yes, and cannot be asked for. */
export function requireAnswerable({ globals, terminal }: Context, loss: string): void {
  if (globals.yes || terminal.interactive) return;
  throw new CliError(code, loss, { hint: "If that is what you want, run the same command with --yes" });
}
