import { command } from "../command.ts";
import { type Config, configPath, deleteConfig, readConfig } from "../config.ts";
import type { Context } from "../context.ts";
import { resolveApiUrl } from "../credentials.ts";
import { CliError } from "../errors.ts";
import { platformOfOwnKey, takeBack } from "../login/take-back.ts";

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
    const revoked = config !== null && (await revoke(context, config));
    await deleteConfig(path);
    if (env["SVC_TOKEN"]) context.warn("SVC_TOKEN is still set; commands go on using it");
    const apiUrl = config?.apiUrl ?? resolveApiUrl(env, null);
    return { message: config === null ? "You were not logged in" : `Logged out of ${apiUrl}`, apiUrl, revoked };
  },
  render: ({ message }, { paint }) => `${paint("green", "✓")} ${message}`,
});

/** Takes the stored key back at the platform that made it; whether that worked. */
async function revoke(context: Context, config: Config): Promise<boolean> {
  const platform = platformOfOwnKey(config);
  if (platform === null) return false;
  const failure = await takeBack(context, config, platform);
  if (failure === null) return true;
  context.warn(
    `The key could not be revoked (${failure.message}); after the next login, look for it with \`svc tokens list\` and revoke it with \`svc tokens revoke <id>\``,
  );
  return false;
}
