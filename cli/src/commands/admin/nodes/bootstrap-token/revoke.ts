import { bootstrapTokenParams, deleteBootstrapTokenReply } from "@svc/proto";
import { argument, command } from "../../../../command.ts";
import { CliError } from "../../../../errors.ts";

const hint = "See the tokens with `svc admin nodes bootstrap-token list`";

export const adminNodesBootstrapTokenRevoke = command({
  name: "admin nodes bootstrap-token revoke",
  summary: "Revoke a token with which a machine could join; one that joined with it stays",
  arguments: { id: argument.required("id", "Its id, as `svc admin nodes bootstrap-token list` shows it") },
  examples: ["svc admin nodes bootstrap-token revoke 0123456789abcdef"],
  async run(context, { id: named }) {
    // Also keeps a token out of the address, where servers on the way may write it down.
    if (!bootstrapTokenParams.safeParse({ id: named }).success)
      throw new CliError("CLI_INVALID_USAGE", "That is not the id of a token", { hint });
    const api = await context.api();
    const path = `/admin/nodes/bootstrap-tokens/${named}`;
    const { id, node } = await api.delete(path, deleteBootstrapTokenReply).catch((thrown: unknown) => {
      if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_NOT_FOUND") throw thrown;
      throw new CliError("CLOUD_NOT_FOUND", `There is no token with the id ${named}`, { hint });
    });
    return { id, revoked: true, ...(node && { node }) };
  },
  render: (payload, { paint }) => {
    const done = `${paint("green", "✓")} The token is revoked`;
    if (!("node" in payload)) return done;
    const { name } = payload.node;
    return `${done}. ${name} joined with it before and stays; to take it out, drain it and then \`svc admin nodes remove ${name}\``;
  },
});
