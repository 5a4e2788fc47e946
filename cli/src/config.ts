import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { type User, userSchema } from "@svc/proto";
import { z } from "zod";
import type { Env } from "./environment.ts";
import { CliError } from "./errors.ts";
import { readTextFile, replaceFile, unreadableAs } from "./files.ts";
import { parseJson } from "./json.ts";

/** The stored login. `user` is who that was, for people; it decides nothing. */
export interface Config {
  apiUrl: string;
  tokenRef: string;
  user?: User | undefined;
}

const schema = z.looseObject({ apiUrl: z.string(), tokenRef: z.string(), user: userSchema.optional() });
const configBytesMax = 64 * 1024;

/** Where the stored login lies: XDG_CONFIG_HOME, else `~/.config`. */
export function configPath(env: Env, home: string): string {
  const base = env["XDG_CONFIG_HOME"];
  // The XDG rules: a relative path is ignored.
  return join(base?.startsWith("/") ? base : join(home, ".config"), "svc", "config.json");
}

/** The stored login, or null when there is none. CONFIG_INVALID when the file is not one of ours. */
export async function readConfig(path: string): Promise<Config | null> {
  const text = await readTextFile(path, configBytesMax).catch(unreadableAs("CONFIG_INVALID", path));
  if (text === null) return null;
  const result = schema.safeParse(parseJson(text));
  if (result.success) return result.data;
  throw new CliError("CONFIG_INVALID", `${path} is not a stored login`, {
    hint: `Delete ${path}, then run \`svc login\``,
  });
}

/** Whether others on this machine may read the file; false where the system has no such permissions. */
export async function isExposed(path: string): Promise<boolean> {
  if (process.platform === "win32") return false;
  return ((await stat(path)).mode & 0o077) !== 0;
}

export const writeConfig = (path: string, config: Config): Promise<void> =>
  replaceFile(path, `${JSON.stringify(config, null, 2)}\n`, { mode: 0o600, refusal: "CONFIG_INVALID" });

/** Forgets the stored login. */
export const deleteConfig = (path: string): Promise<void> => rm(path, { force: true });
