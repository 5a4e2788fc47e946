import { readdirSync, rmdirSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import type { Challenge } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import { readAnswer } from "@svc/runtime/http-answer";
import { createLimiter } from "@svc/runtime/limiter";
import type { Log } from "../log.ts";
import { isHost } from "../names.ts";
import { challengePath, isChallenge } from "./names.ts";
import { openServingFiles, type ServingFiles } from "./serving.ts";

/** What this edge answers CAs. */
export interface Challenges {
  /** Answers these from now on and no others. Returns the tokens of those that Caddy answers, as was looked. */
  learn(challenges: readonly Challenge[]): Promise<string[]>;
}

const looksAtOnce = 8;
const lookMs = 5_000;
const answerBytesMax = 1_024;
const open = { dir: 0o755, file: 0o644 };

/**
 * Nothing is kept over a restart of this program: control tells all of them at the beginning of each session, and what Caddy
 * is serving stays until then.
 *
 * @param dir in memory; `<host>/<token>` is a file with the answer
 * @param httpListen where Caddy listens for visitors without TLS
 */
export function openChallenges(clock: Clock, dir: string, httpListen: string, log: Log): Challenges {
  openServingFiles(dir, open);
  const limit = createLimiter({ total: looksAtOnce });
  let last: Promise<unknown> = Promise.resolve();

  function write(challenges: readonly Challenge[]): void {
    const byHost = Map.groupBy(challenges, ({ host }) => host);
    for (const [host, ofHost] of byHost) {
      const files = openServingFiles(join(dir, host), open);
      for (const { token, answer } of ofHost) files.put(token, answer);
      removeOthers(files, new Set(ofHost.map(({ token }) => token)));
    }
    for (const host of readdirSync(dir)) {
      if (byHost.has(host)) continue;
      removeOthers(openServingFiles(join(dir, host), open), new Set());
      rmdirSync(join(dir, host));
    }
  }

  async function isAnswered({ host, token, answer }: Challenge): Promise<boolean> {
    try {
      return (await ask(clock, httpListen, host, `${challengePath}${token}`)) === answer;
    } catch (err) {
      log.warn({ host, err }, "caddy does not answer a challenge");
      return false;
    }
  }

  async function apply(challenges: readonly Challenge[]): Promise<string[]> {
    const usable = challenges.filter((each) => isHost(each.host) && isChallenge(each));
    if (usable.length < challenges.length) log.error({}, "control told a challenge that makes no sense");
    write(usable);
    const answered = await Promise.all(
      usable.map((each) => limit(async () => ((await isAnswered(each)) ? [each.token] : []))),
    );
    return answered.flat();
  }

  return {
    learn(challenges) {
      const applied = last.then(() => apply(challenges));
      last = applied.catch(() => {});
      return applied;
    },
  };
}

function removeOthers(files: ServingFiles, kept: ReadonlySet<string>): void {
  for (const name of files.names()) if (!kept.has(name)) files.remove(name);
}

/** What a visitor of this very edge gets; null unless it is a page. */
function ask(clock: Clock, listen: string, host: string, path: string): Promise<string | null> {
  const at = listen.lastIndexOf(":");
  const address = listen.slice(0, at).replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    const sent = httpRequest({
      // An empty host is every address.
      host: address === "" || address === "0.0.0.0" || address === "::" ? "127.0.0.1" : address,
      port: Number(listen.slice(at + 1)),
      path,
      headers: { Host: host },
      agent: false,
      signal: clock.abortAfter(lookMs),
    });
    sent.once("error", reject);
    sent.once("response", (answer) => {
      readAnswer(answer, answerBytesMax).then((text) => resolve(answer.statusCode === 200 ? text : null), reject);
    });
    sent.end();
  });
}
