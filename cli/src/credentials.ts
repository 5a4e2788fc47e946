import { dirname } from "node:path";
import { type Config, configPath, isExposed, readConfig } from "./config.ts";
import type { Env } from "./environment.ts";
import { CliError } from "./errors.ts";
import { parseApiUrl, sameOrigin } from "./origin.ts";
import { isKeyText, resolveTokenRef } from "./token-ref.ts";

/** The API that is used when nobody named one: a platform on this machine. */
const defaultApiUrl = "http://127.0.0.1:4000";

/** Whom to ask and as whom. `source` says where the key came from. */
export interface Credentials {
  apiUrl: string;
  token: string;
  source: "env" | "config";
}

export interface CredentialFacts {
  env: Env;
  home: string;
  warn(text: string): void;
}

function checkedApiUrl(text: string, from: string): string {
  const parsed = parseApiUrl(text);
  if ("url" in parsed) return parsed.url;
  throw new CliError("CONFIG_INVALID", `${from}: ${parsed.problem}`, { hint: "Run `svc login --api-url <url>`" });
}

/**
 * The origin of the API: SVC_API_URL, else the stored login's, else this machine. Never from the
 * directory that svc runs in, so that a checked-out repository cannot send the key elsewhere.
 */
export function resolveApiUrl(env: Env, config: Config | null): string {
  const fromEnv = env["SVC_API_URL"];
  if (fromEnv) return checkedApiUrl(fromEnv, "SVC_API_URL");
  return config === null ? defaultApiUrl : checkedApiUrl(config.apiUrl, "The stored login");
}

/**
 * The key of SVC_TOKEN, else of the stored login. A stored key is only ever sent to the origin it was
 * made for: with another SVC_API_URL, and with no login at all, the answer is CLOUD_NOT_LOGGED_IN.
 */
export async function resolveCredentials({ env, home, warn }: CredentialFacts): Promise<Credentials> {
  const path = configPath(env, home);
  const fromEnv = env["SVC_TOKEN"]?.trim();
  if (fromEnv) {
    if (!isKeyText(fromEnv))
      throw new CliError("TOKEN_MISSING", "What is in SVC_TOKEN is not a key", {
        hint: "Put a valid key into SVC_TOKEN, or unset it and run `svc login`",
      });
    // With both variables there is no need to look at, or trip over, a stored login.
    const config = env["SVC_API_URL"] ? null : await readConfig(path);
    return { apiUrl: resolveApiUrl(env, config), token: fromEnv, source: "env" };
  }
  const config = await readConfig(path);
  const apiUrl = resolveApiUrl(env, config);
  const loginHint = `Run \`svc login --api-url ${apiUrl}\`, or put a key into SVC_TOKEN`;
  if (config === null) throw new CliError("CLOUD_NOT_LOGGED_IN", "You are not logged in", { hint: loginHint });
  if (!sameOrigin(apiUrl, checkedApiUrl(config.apiUrl, "The stored login")))
    throw new CliError("CLOUD_NOT_LOGGED_IN", `You are logged in to ${config.apiUrl}, not to ${apiUrl}`, {
      hint: loginHint,
    });
  if (await isExposed(path)) warn(`Others can read ${path}; run \`chmod 600 ${path}\``);
  return {
    apiUrl,
    token: await resolveTokenRef(config.tokenRef, { env, home, directory: dirname(path) }),
    source: "config",
  };
}

/** A refusal of the key itself, told by where the key came from. */
export function refusedKey({ code, server }: CliError, { source, apiUrl }: Credentials): CliError {
  const [what, hint] =
    source === "env"
      ? ["the key in SVC_TOKEN", "Put a valid key into SVC_TOKEN, or unset it to use the stored login"]
      : ["the key of the stored login", `Log in again with \`svc login --api-url ${apiUrl}\``];
  const named = server?.code == null ? "" : `${server.code}: `;
  return new CliError(
    code,
    `${named}${apiUrl} refused ${what}: it was revoked, has expired, or is of another platform`,
    {
      hint,
      ...(server && { server }),
    },
  );
}
