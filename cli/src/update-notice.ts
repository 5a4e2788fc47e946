import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { z } from "zod";
import type { Env } from "./environment.ts";
import { readTextFile, replaceFile } from "./files.ts";
import { parseJson } from "./json.ts";
import { version } from "./version.ts";

const tellEveryMs = 86_400_000;
const bytesMax = 4096;

const remembered = z.looseObject({ toldAt: z.number() });

/**
 * A sentence when the platform runs a newer version than this program, at most once a day; else null. The platform is
 * whom the person trusts already, so nobody else is asked. `SVC_NO_UPDATE_NOTICE` and `NO_UPDATE_NOTIFIER` turn it off.
 */
export async function updateNotice(
  { clock, env, home }: { clock: Clock; env: Env; home: string },
  platformVersion: string | null,
): Promise<string | null> {
  if (env["SVC_NO_UPDATE_NOTICE"] || env["NO_UPDATE_NOTIFIER"]) return null;
  if (platformVersion === null || !isNewer(platformVersion, version)) return null;
  try {
    if (!(await isDue(clock.now().getTime(), env, home))) return null;
  } catch {
    // A cache that cannot be written must not make every command nag.
    return null;
  }
  return `The platform runs svc ${platformVersion}, this is ${version}. Update it where you got it`;
}

/** Whether nothing was told for a day; notes that it is being told now. */
async function isDue(nowMs: number, env: Env, home: string): Promise<boolean> {
  const base = env["XDG_CACHE_HOME"];
  const path = join(base?.startsWith("/") ? base : join(home, ".cache"), "svc", "update.json");
  const toldAt = remembered.safeParse(parseJson((await readTextFile(path, bytesMax)) ?? "")).data?.toldAt ?? 0;
  if (nowMs >= toldAt && nowMs - toldAt < tellEveryMs) return false;
  await replaceFile(path, JSON.stringify({ toldAt: nowMs }), { mode: 0o644, refusal: "CONFIG_INVALID" });
  return true;
}

/** Whether `candidate` is a release that comes after `current`; a prerelease never is. */
export function isNewer(candidate: string, current: string): boolean {
  const parts = (text: string) => /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})$/.exec(text)?.slice(1).map(Number);
  const [next, present] = [parts(candidate), parts(current.split("-")[0] ?? "")];
  if (next === undefined || present === undefined) return false;
  const at = next.findIndex((part, index) => part !== present[index]);
  return at !== -1 && (next[at] ?? 0) > (present[at] ?? 0);
}
