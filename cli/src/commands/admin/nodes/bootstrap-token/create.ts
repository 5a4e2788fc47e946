import { rm } from "node:fs/promises";
import { resolve } from "node:path";
import { createBootstrapTokenReply, daemonRoles, deleteBootstrapTokenReply, limits } from "@svc/proto";
import type { Api } from "../../../../api.ts";
import { command, flag } from "../../../../command.ts";
import type { Context } from "../../../../context.ts";
import { CliError } from "../../../../errors.ts";
import { formatDuration } from "../../../../format.ts";
import { fillFile, reserveFile, unwritten } from "../../../../new-file.ts";
import { parseSpan } from "../../../../span.ts";
import { readAddresses } from "../readdress.ts";

export const adminNodesBootstrapTokenCreate = command({
  name: "admin nodes bootstrap-token create",
  summary: "Make a one-time token with which a machine joins",
  details: "The token is written to a new file that only you can read (mode 0600), and never printed.",
  flags: {
    file: flag.text("--file <new-path>", "Where to write the token; there must be nothing yet"),
    expiresIn: flag.text(
      "--expires-in <duration>",
      `How long it may be used, such as 15m or 24h; default: ${formatDuration(limits.bootstrapTokenSecondsDefault * 1000)}`,
    ),
    address: flag.text(
      "--address <address,…>",
      "Where edges may reach the node; unless given, only at the address that it joins from",
    ),
    role: flag.choice("--role <role>", "What the machine will be; default: node", daemonRoles),
  },
  examples: [
    "svc admin nodes bootstrap-token create --file node-1.token",
    "svc admin nodes bootstrap-token create --file node-2.token --address 10.0.0.7",
    "svc admin nodes bootstrap-token create --file edge-1.token --role edge --expires-in 24h",
  ],
  async run(context, { file, role = "node", address, expiresIn }) {
    if (file === undefined)
      throw new CliError("CLI_INVALID_USAGE", "--file <new-path> is missing", {
        hint: "Say where the token goes: `svc admin nodes bootstrap-token create --file node-1.token`",
      });
    const asked = {
      role,
      ...(address !== undefined && { addresses: readAddresses(address.split(",")) }),
      ...(expiresIn !== undefined && { expiresIn: secondsOf(expiresIn) }),
    };
    const path = resolve(context.cwd, file);
    const api = await context.api();
    // Taken before there is a token, so that a wrong path costs nothing.
    await reserveFile(path);
    const { id, expiresAt } = await fillOrRemove(context, api, path, asked);
    return { id, role, file, expiresAt };
  },
  render: ({ file, role, expiresAt }, { paint, now }) =>
    `${paint("green", "✓")} Wrote a token for one ${role} to ${file}; it is good for ${formatDuration(Date.parse(expiresAt) - now.getTime())}`,
});

const secondsMin = 60;

function secondsOf(span: string): number {
  const seconds = Math.round((parseSpan(span) ?? 0) / 1000);
  if (seconds >= secondsMin && seconds <= limits.bootstrapTokenSecondsMax) return seconds;
  const most = formatDuration(limits.bootstrapTokenSecondsMax * 1000);
  throw new CliError("CLI_INVALID_USAGE", `--expires-in is a duration between 1 min and ${most}`, {
    hint: "Half an hour: `--expires-in 30m`",
  });
}

async function fillOrRemove(context: Context, api: Api, path: string, body: object) {
  try {
    const { bootstrapToken } = await api.post("/admin/nodes/bootstrap-tokens", createBootstrapTokenReply, {
      body,
    });
    context.terminal.hide(bootstrapToken.token);
    await fillFile(path, bootstrapToken.token).catch((thrown: unknown) => revoke(api, path, bootstrapToken.id, thrown));
    return bootstrapToken;
  } catch (thrown) {
    await rm(path, { force: true });
    throw thrown;
  }
}

/** Takes back a token that nobody could keep, and fails with what kept it from being written. */
async function revoke(api: Api, path: string, id: string, cause: unknown): Promise<never> {
  const isRevoked = await api
    .delete(`/admin/nodes/bootstrap-tokens/${encodeURIComponent(id)}`, deleteBootstrapTokenReply)
    .then(
      () => true,
      () => false,
    );
  const fate = isRevoked ? "was taken back" : `${id} could not be taken back, and expires by itself`;
  throw unwritten(path, cause, `. The token ${fate}`);
}
