import { open, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { createBootstrapTokenReply, daemonRoles, deleteBootstrapTokenReply } from "@svc/proto";
import type { Api } from "../../../../api.ts";
import { command, flag } from "../../../../command.ts";
import type { Context } from "../../../../context.ts";
import { CliError } from "../../../../errors.ts";
import { createFile, isFileError } from "../../../../files.ts";

export const adminNodesBootstrapTokenCreate = command({
  name: "admin nodes bootstrap-token create",
  summary: "Make a one-time token with which a machine joins",
  details: "The token is written to a new file that only you can read (mode 0600), and never printed.",
  flags: {
    file: flag.text("--file <new-path>", "Where to write the token; there must be nothing yet"),
    role: flag.choice("--role <role>", "What the machine will be; default: node", daemonRoles),
  },
  examples: ["svc admin nodes bootstrap-token create --file node-1.token"],
  async run(context, { file, role = "node" }) {
    if (file === undefined)
      throw new CliError("CLI_INVALID_USAGE", "--file <new-path> is missing", {
        hint: "Say where the token goes: `svc admin nodes bootstrap-token create --file node-1.token`",
      });
    const path = resolve(context.cwd, file);
    const api = await context.api();
    // Taken before there is a token, so that a wrong path costs nothing.
    await reserve(path);
    const { id, expiresAt } = await fillOrRemove(context, api, path, role);
    return { id, role, file, expiresAt };
  },
  render: ({ file, role, expiresAt }, { paint }) =>
    `${paint("green", "✓")} Wrote a token for one ${role} to ${file}; it is good until ${expiresAt}`,
});

async function reserve(path: string): Promise<void> {
  try {
    await createFile(path, "", 0o600);
  } catch (thrown) {
    if (!isFileError(thrown, "EEXIST", "ENOENT", "ENOTDIR", "EACCES", "EISDIR")) throw thrown;
    const why = isFileError(thrown, "EEXIST") ? "exists already" : "cannot be written";
    throw new CliError("CLI_INVALID_USAGE", `${path} ${why}`, { hint: "Name a new file with --file <new-path>" });
  }
}

async function fillOrRemove(context: Context, api: Api, path: string, role: "node" | "edge") {
  try {
    const { bootstrapToken } = await api.post("/admin/nodes/bootstrap-tokens", createBootstrapTokenReply, {
      body: { role },
    });
    context.terminal.hide(bootstrapToken.token);
    await fill(path, bootstrapToken.token).catch((thrown: unknown) => revoke(context, api, bootstrapToken.id, thrown));
    return bootstrapToken;
  } catch (thrown) {
    await rm(path, { force: true });
    throw thrown;
  }
}

async function fill(path: string, token: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.writeFile(`${token}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Takes back a token that nobody could keep, and fails with what kept it from being written. */
async function revoke(context: Context, api: Api, id: string, cause: unknown): Promise<never> {
  await api.delete(`/admin/nodes/bootstrap-tokens/${encodeURIComponent(id)}`, deleteBootstrapTokenReply).catch(() => {
    context.warn(`The token ${id} could not be taken back; it expires by itself`);
  });
  throw cause;
}
