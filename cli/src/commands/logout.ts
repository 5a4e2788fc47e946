import { dirname } from "node:path";
import { deleteTokenReply } from "@svc/proto";
import { command } from "../command.ts";
import { type Config, configPath, deleteConfig, readConfig } from "../config.ts";
import type { Context } from "../context.ts";
import { resolveApiUrl } from "../credentials.ts";
import { CliError } from "../errors.ts";
import { parseApiUrl } from "../origin.ts";
import { parseTokenRef, resolveTokenRef } from "../token-ref.ts";

export const logout = command({
  name: "logout",
  summary: "Revoke the stored key and forget the login",
  details:
    "A key that the stored login only points to (env:, file:, dotenv:) belongs to somebody else's care and is not revoked.",
  examples: ["svc logout"],
  async run(context) {
    const { env, home } = context;
    const path = configPath(env, home);
    // A damaged file is forgotten like any other.
    const config = await readConfig(path).catch((thrown: unknown) => {
      if (thrown instanceof CliError && thrown.code === "CONFIG_INVALID") return null;
      throw thrown;
    });
    const revoked = config !== null && (await revoke(context, config, dirname(path)));
    await deleteConfig(path);
    if (env["SVC_TOKEN"]) context.warn("SVC_TOKEN is still set; commands go on using it");
    const apiUrl = config?.apiUrl ?? resolveApiUrl(env, null);
    return { message: config === null ? "You were not logged in" : `Logged out of ${apiUrl}`, apiUrl, revoked };
  },
  render: ({ message }, { paint }) => `${paint("green", "✓")} ${message}`,
});

/** Takes the stored key back at the platform that made it; whether that worked. */
async function revoke(context: Context, config: Config, directory: string): Promise<boolean> {
  const target = parseApiUrl(config.apiUrl);
  if (!("url" in target) || parseTokenRef(config.tokenRef)?.scheme !== "literal") return false;
  try {
    const { env, home } = context;
    const token = await resolveTokenRef(config.tokenRef, { env, home, directory });
    context.terminal.hide(token);
    const api = await context.apiAt(target.url, { "x-api-key": token });
    await api.delete("/tokens/self", deleteTokenReply);
    return true;
  } catch (thrown) {
    if (context.signal.aborted) throw thrown;
    const why = thrown instanceof Error ? thrown.message : "";
    context.warn(`The key could not be revoked (${why}); if it is still listed in the dashboard, delete it there`);
    return false;
  }
}
