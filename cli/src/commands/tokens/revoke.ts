import { deleteTokenReply, tokenListReply } from "@svc/proto";
import { argument, command } from "../../command.ts";
import { configPath, deleteConfig, readConfig } from "../../config.ts";
import { confirmLoss } from "../../confirm.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { isId } from "../../ids.ts";
import { platformOfOwnKey } from "../../login/take-back.ts";

const hint = "See your keys with `svc tokens list`";

export const tokensRevoke = command({
  name: "tokens revoke",
  summary: "Revoke a key of your account; whatever uses it is refused from then on",
  details:
    "Needs a login, or a key with full access. Of the key that this command itself uses a person is asked first; `svc logout` revokes the one of this computer's login.",
  arguments: { id: argument.required("id", "Its id, as `svc tokens list` shows it") },
  examples: ["svc tokens revoke 3f0c0f0e-6f0a-4a52-9d1b-0a6f5f1c2b3d"],
  async run(context, { id: named }) {
    // Also keeps a key out of the address, where servers on the way may write it down.
    if (!isId(named)) throw new CliError("CLI_INVALID_USAGE", "That is not the id of a key", { hint });
    const unknown = () => new CliError("CLOUD_NOT_FOUND", `You have no key with the id ${named}`, { hint });
    const api = await context.api();
    const { token, source } = await context.credentials();
    const key = (await api.get("/tokens", tokenListReply)).tokens.find(({ id }) => id === named.toLowerCase());
    if (key === undefined) throw unknown();
    const inUse = token.startsWith(key.start);
    const whose = source === "env" ? "SVC_TOKEN" : "this computer's login";
    // Nobody is there to be asked in a pipeline, which may well end with that.
    if (inUse && context.terminal.interactive)
      await confirmLoss(context, {
        loss: `This is the key of ${whose}: svc is logged out without it.`,
        name: key.name,
      });
    const { id } = await api.delete(`/tokens/${key.id}`, deleteTokenReply).catch((thrown: unknown) => {
      if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_NOT_FOUND") throw thrown;
      throw unknown();
    });
    if (inUse && source === "config") await forgetLogin(context);
    if (inUse)
      context.warn(`That was the key of ${whose}, which nothing accepts any more; log in again with \`svc login\``);
    return { id, revoked: true, inUse };
  },
  render: (_payload, { paint }) => `${paint("green", "✓")} The key is revoked`,
});

/** A login that holds the key itself has come to its end with it. */
async function forgetLogin({ env, home }: Context): Promise<void> {
  const path = configPath(env, home);
  const config = await readConfig(path);
  if (config !== null && platformOfOwnKey(config) !== null) await deleteConfig(path);
}
