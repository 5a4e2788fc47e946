import { once } from "node:events";
import { text } from "node:stream/consumers";
import { type Argv, argv, spawnProgram } from "@svc/runtime/programs";
import { shown } from "./handshake.ts";

/** What became of what a kind of client asked. */
export interface Asked {
  sent: number;
  /** Answered, and not as it should be. */
  wrong: number;
  /** Not answered: a connection was refused, broken off, or silent. Browsers ask again after some of these. */
  cut: number;
  /** The first of either, in words. */
  problems: string[];
}

const problemsKept = 5;
export const noneAsked = (): Asked => ({ sent: 0, wrong: 0, cut: 0, problems: [] });

export function note(asked: Asked, problem: string, { wrong = 0, cut = 0 }: { wrong?: number; cut?: number }): void {
  if (wrong + cut === 0) return;
  asked.wrong += wrong;
  asked.cut += cut;
  if (asked.problems.length < problemsKept) asked.problems.push(problem);
}

/** Of one run of a client: long enough for connections to be kept, and short enough for many to be opened. */
const runSeconds = 2;

async function outputOf(program: Argv): Promise<string> {
  const client = spawnProgram(program, { stdio: ["ignore", "pipe", "pipe"] });
  const [said, complaint] = await Promise.all([text(client.stdout), text(client.stderr), once(client, "exit")]);
  return said + complaint;
}

/** The groups of the pattern as numbers. Throws when a client does not say them. */
function numbersOf(said: string, pattern: RegExp): number[] {
  const found = pattern.exec(said);
  if (found === null) throw new Error(`a client does not say what became of its requests:\n${said}`);
  return found.slice(1).map(Number);
}
const numberOf = (said: string, pattern: RegExp): number => numbersOf(said, pattern)[0] ?? 0;

/** HTTP/1.1 over connections that are kept, with wrk. */
export async function askPlainly(address: string, host: string, asked: Asked): Promise<void> {
  const about = ["-t", "1", "-c", "4", "-d", `${runSeconds}s`, "--timeout", "10s", "-H", `Host: ${host}`];
  const said = await outputOf(argv("wrk", ...about, `http://${address}/`));
  asked.sent += numberOf(said, /(\d+) requests in/);
  // It says these only where there are some.
  const broken = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(said);
  const cut = (broken?.slice(1) ?? []).reduce((sum, count) => sum + Number(count), 0);
  const wrong = Number(/Non-2xx or 3xx responses: (\d+)/.exec(said)?.[1] ?? 0);
  note(asked, `wrk: ${broken?.[0] ?? ""} ${wrong} other answers`, { wrong, cut });
}

/** HTTP/2 over TLS, several requests at once on each connection, with h2load. */
export async function askOverTls(address: string, host: string, asked: Asked): Promise<void> {
  const about = ["-t", "1", "-c", "2", "-m", "4", "-D", String(runSeconds), `--connect-to=${address}`];
  const said = await outputOf(argv("h2load", ...about, `https://${host}/`));
  const counts = /(\d+) done, (\d+) succeeded, (\d+) failed/;
  const [done = 0, , failed = 0] = numbersOf(said, counts);
  asked.sent += done;
  const wrong = numbersOf(said, /(\d+) 3xx, (\d+) 4xx, (\d+) 5xx/).reduce((sum, count) => sum + count, 0);
  note(asked, `h2load: ${counts.exec(said)?.[0]}, ${wrong} other answers`, { wrong, cut: failed });
}

/** A handshake of its own, which has to show a certificate for the name. */
export async function shakeHands(address: string, name: string, asked: Asked): Promise<void> {
  asked.sent += 1;
  const is = await shown(address, name);
  if (!is.startsWith("DNS:")) note(asked, `handshake for ${name}: ${is}`, { cut: 1 });
}
