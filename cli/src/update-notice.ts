import { join } from "node:path";
import { z } from "zod";
import { userAgent } from "./context.ts";
import type { Env } from "./environment.ts";
import { readTextFile, replaceFile } from "./files.ts";
import type { Http } from "./http.ts";
import { parseJson } from "./json.ts";
import { version } from "./version.ts";

const registryUrl = "https://registry.npmjs.org/svc-cli/latest";
const askEveryMs = 86_400_000;
const answerMs = 3_000;
/** How long a command that is done may still wait for the answer, at most once a day. */
const patienceMs = 500;
const bytesMax = 256 * 1024;

const remembered = z.looseObject({ askedAt: z.number(), newest: z.string() });
const published = z.looseObject({ version: z.string() });

export type NoticeFacts = { env: Env; home: string; http(): Promise<Http>; signal: AbortSignal };

/**
 * Begins to look whether a newer version is published, at most once a day, and returns what to ask for the answer when
 * the command is done: a sentence, or null. Nothing that goes wrong with it is ever told. `SVC_NO_UPDATE_NOTICE` and
 * `NO_UPDATE_NOTIFIER` turn it off; `SVC_UPDATE_URL` names another registry's address of the package.
 */
export function findNewer(facts: NoticeFacts): () => Promise<string | null> {
  const { env } = facts;
  if (env["SVC_NO_UPDATE_NOTICE"] || env["NO_UPDATE_NOTIFIER"]) return async () => null;
  const newest = findNewest(facts).catch(() => null);
  return async () => {
    const known = await Promise.race([
      newest,
      new Promise<null>((resolve) => setTimeout(resolve, patienceMs, null).unref()),
    ]);
    return known !== null && isNewer(known, version)
      ? `svc ${known} is out, this is ${version}. Update with \`npm install --global svc-cli\``
      : null;
  };
}

async function findNewest({ env, home, http, signal }: NoticeFacts): Promise<string | null> {
  const base = env["XDG_CACHE_HOME"];
  const path = join(base?.startsWith("/") ? base : join(home, ".cache"), "svc", "update.json");
  const known = remembered.safeParse(parseJson((await readTextFile(path, bytesMax)) ?? "")).data;
  const now = Date.now();
  if (known !== undefined && now - known.askedAt < askEveryMs && now >= known.askedAt) return known.newest;
  const remember = (newest: string) =>
    replaceFile(path, JSON.stringify({ askedAt: now, newest }), { mode: 0o644, refusal: "CONFIG_INVALID" });
  // Written first: without a network the wait is not repeated with every command.
  await remember(known?.newest ?? version);
  const { status, body } = await (await http()).send({
    method: "GET",
    url: env["SVC_UPDATE_URL"] || registryUrl,
    headers: { accept: "application/json", "user-agent": userAgent },
    timeoutMs: answerMs,
    maxBytes: bytesMax,
    signal,
  });
  const answer = status === 200 ? published.safeParse(parseJson(body)).data : undefined;
  if (answer === undefined) return known?.newest ?? null;
  await remember(answer.version);
  return answer.version;
}

/** Whether `candidate` is a release that comes after `current`; a prerelease never is. */
export function isNewer(candidate: string, current: string): boolean {
  const parts = (text: string) => /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})$/.exec(text)?.slice(1).map(Number);
  const [next, present] = [parts(candidate), parts(current.split("-")[0] ?? "")];
  if (next === undefined || present === undefined) return false;
  const at = next.findIndex((part, index) => part !== present[index]);
  return at !== -1 && (next[at] ?? 0) > (present[at] ?? 0);
}
