import { deleteTokenReply } from "@svc/proto";
import { argument, command } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { isId } from "../../ids.ts";

const hint = "See your keys with `svc tokens list`";

export const tokensRevoke = command({
  name: "tokens revoke",
  summary: "Revoke a key of your account; whatever uses it is refused from then on",
  details: "Needs a login, or a key with full access. The key of this computer's own login goes with `svc logout`.",
  arguments: { id: argument.required("id", "Its id, as `svc tokens list` shows it") },
  examples: ["svc tokens revoke 3f0c0f0e-6f0a-4a52-9d1b-0a6f5f1c2b3d"],
  async run(context, { id: named }) {
    // Also keeps a key out of the address, where servers on the way may write it down.
    if (!isId(named)) throw new CliError("CLI_INVALID_USAGE", "That is not the id of a key", { hint });
    const api = await context.api();
    const { id } = await api.delete(`/tokens/${named.toLowerCase()}`, deleteTokenReply).catch((thrown: unknown) => {
      if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_NOT_FOUND") throw thrown;
      throw new CliError("CLOUD_NOT_FOUND", `You have no key with the id ${named}`, { hint });
    });
    return { id, revoked: true };
  },
  render: (_payload, { paint }) => `${paint("green", "✓")} The key is revoked`,
});
