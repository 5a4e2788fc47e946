import { dirname } from "node:path";
import { deleteTokenReply } from "@svc/proto";
import { type Config, configPath } from "../config.ts";
import type { Context } from "../context.ts";
import { type CliError, toCliError } from "../errors.ts";
import { parseApiUrl } from "../origin.ts";
import { parseTokenRef, resolveTokenRef } from "../token-ref.ts";

/** The platform for which `config` holds a key itself. Null where it only points to one, which is somebody else's. */
export function platformOfOwnKey(config: Config): string | null {
  const target = parseApiUrl(config.apiUrl);
  return "url" in target && parseTokenRef(config.tokenRef)?.scheme === "literal" ? target.url : null;
}

/** Takes back the key of `config`, at `apiUrl`, which must be what `platformOfOwnKey` says. Returns why that failed, or null. */
export async function takeBack(context: Context, config: Config, apiUrl: string): Promise<CliError | null> {
  const { env, home } = context;
  try {
    const token = await resolveTokenRef(config.tokenRef, { env, home, directory: dirname(configPath(env, home)) });
    context.terminal.hide(token);
    await (await context.apiAt(apiUrl, { "x-api-key": token })).delete("/tokens/self", deleteTokenReply);
    return null;
  } catch (thrown) {
    if (context.signal.aborted) throw thrown;
    return toCliError(thrown);
  }
}
