import { hostname } from "node:os";
import { createTokenReply, deleteTokenReply, limits, meReply } from "@svc/proto";
import { command, flag } from "../command.ts";
import { configPath, readConfig, writeConfig } from "../config.ts";
import type { Context } from "../context.ts";
import { resolveApiUrl } from "../credentials.ts";
import { CliError } from "../errors.ts";
import { confirmInBrowser, endSession } from "../login/flow.ts";
import { parseApiUrl } from "../origin.ts";

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
    const user = await storeKey(context, apiUrl, session);
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

/** Where the last login went. A damaged file is no reason not to log in anew: it is replaced. */
async function rememberedApiUrl({ env, home }: Context): Promise<string> {
  const config = await readConfig(configPath(env, home)).catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.code === "CONFIG_INVALID") return null;
    throw thrown;
  });
  return resolveApiUrl(env, config);
}

/** Makes a key with the session and stores it. A key that cannot be stored is taken back. */
async function storeKey(context: Context, apiUrl: string, session: string) {
  const asSession = await context.apiAt(apiUrl, { authorization: `Bearer ${session}` });
  const name = `cli @ ${hostname()}`.replace(/[^\x20-\x7e]/g, "?").slice(0, limits.tokenNameLengthMax);
  const { key } = (await asSession.post("/tokens", createTokenReply, { body: { name } })).token;
  context.terminal.hide(key);
  const asKey = await context.apiAt(apiUrl, { "x-api-key": key });
  try {
    const { user } = await asKey.get("/me", meReply);
    await writeConfig(configPath(context.env, context.home), { apiUrl, tokenRef: `literal:${key}`, user });
    return { id: user.id, email: user.email, name: user.name, plan: user.plan };
  } catch (thrown) {
    await asKey.delete("/tokens/self", deleteTokenReply).catch(() => {
      context.warn(`The key "${name}" could not be taken back; delete it in the dashboard`);
    });
    throw thrown;
  }
}
