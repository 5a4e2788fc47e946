import { hostname } from "node:os";
import { createTokenReply, deleteTokenReply, limits, meReply } from "@svc/proto";
import { command, flag } from "../command.ts";
import { type Config, configPath, readConfig, writeConfig } from "../config.ts";
import type { Context } from "../context.ts";
import { resolveApiUrl } from "../credentials.ts";
import { CliError } from "../errors.ts";
import { confirmInBrowser, endSession } from "../login/flow.ts";
import { platformOfOwnKey, takeBack } from "../login/take-back.ts";
import { parseApiUrl, sameOrigin } from "../origin.ts";

export const login = command({
  name: "login",
  summary: "Log in to a platform by confirming a code in the browser",
  details:
    "Makes a full-access key for this computer and stores it in config.json (mode 0600) below XDG_CONFIG_HOME or ~/.config. In a pipeline, put a scoped key into SVC_TOKEN instead.",
  flags: {
    apiUrl: flag.text("--api-url <url>", "Address of the platform; default: SVC_API_URL, the last login, this machine"),
  },
  examples: ["svc login --api-url https://svc.example.test", "svc login"],
  async run(context, { apiUrl: named }) {
    const apiUrl = named === undefined ? await rememberedApiUrl(context) : checked(named);
    context.onInterrupt("Nothing was stored. Log in with `svc login`");
    const session = await confirmInBrowser(context, apiUrl);
    context.terminal.hide(session);
    const replaced = await readLastLogin(context);
    const user = await storeKey(context, apiUrl, session);
    context.onInterrupt("The login is stored. See it with `svc whoami`");
    if (replaced !== null) await retire(context, replaced, apiUrl);
    await endSession(context, apiUrl, session);
    if (context.env["SVC_TOKEN"])
      context.warn("SVC_TOKEN is set and goes before this login; unset it to use what was stored");
    return { message: `Logged in to ${apiUrl} as ${user.email}`, apiUrl, tokenRef: "literal:[redacted]", user };
  },
  render: ({ message }, { paint }) => `${paint("green", "✓")} ${message}`,
});

function checked(text: string): string {
  const parsed = parseApiUrl(text);
  if ("url" in parsed) return parsed.url;
  throw new CliError("CLI_INVALID_USAGE", `--api-url: ${parsed.problem}`, {
    hint: "Name the platform: `svc login --api-url https://svc.example.test`",
  });
}

async function rememberedApiUrl(context: Context): Promise<string> {
  return resolveApiUrl(context.env, await readLastLogin(context));
}

/** The last login. A damaged file is no reason not to log in anew: it is replaced. */
async function readLastLogin({ env, home }: Context): Promise<Config | null> {
  return readConfig(configPath(env, home)).catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.code === "CONFIG_INVALID") return null;
    throw thrown;
  });
}

/** Makes a key with the session and stores it. A key that cannot be stored is taken back. */
async function storeKey(context: Context, apiUrl: string, session: string) {
  const asSession = await context.apiAt(apiUrl, { authorization: `Bearer ${session}` });
  const name = `cli @ ${hostname()}`.replace(/[^\x20-\x7e]/g, "?").slice(0, limits.tokenNameLengthMax);
  const { id, key } = (await asSession.post("/tokens", createTokenReply, { body: { name } })).token;
  context.terminal.hide(key);
  const asKey = await context.apiAt(apiUrl, { "x-api-key": key });
  try {
    const { user } = await asKey.get("/me", meReply);
    await writeConfig(configPath(context.env, context.home), { apiUrl, tokenRef: `literal:${key}`, user });
    return { id: user.id, email: user.email, name: user.name, plan: user.plan };
  } catch (thrown) {
    await asKey.delete("/tokens/self", deleteTokenReply).catch(() => {
      context.warn(
        `The key "${name}" could not be taken back; revoke it after the next login with \`svc tokens revoke ${id}\``,
      );
    });
    throw thrown;
  }
}

/** Takes back the key that this login replaced: nobody has it any more, and an account has room for so many. */
async function retire(context: Context, replaced: Config, apiUrl: string): Promise<void> {
  const platform = platformOfOwnKey(replaced);
  if (platform === null || !sameOrigin(platform, apiUrl)) return;
  const failure = await takeBack(context, replaced, platform);
  // Then it opens nothing any more.
  if (failure === null || failure.server?.status === 401) return;
  context.warn(
    `The key of the login before could not be revoked (${failure.message}); look for it with \`svc tokens list\` and revoke it with \`svc tokens revoke <id>\``,
  );
}
