import { setTimeout as delay } from "node:timers/promises";
import { fetch } from "undici";
import { loopbackAgent } from "./edge.ts";

export interface Visitors {
  url: string;
  /** As DNS says them: whoever is refused at one, or not answered, asks at the next. */
  addresses: readonly string[];
  /** What a page that they were given has to be like. */
  isGood(page: string): boolean;
}

export interface Visits {
  sent: number;
  /** What was no good page, in words: the last thing that went wrong with that visitor. */
  failures: string[];
}

const everyMs = 200;
const answerMs = 15_000;

/** Some visitors of each kind a second, each on a connection of its own, while `act` runs; what became of each kind. */
export async function visitedWhile(kinds: readonly Visitors[], act: () => Promise<void>): Promise<Visits[]> {
  const over = new AbortController();
  const visiting = kinds.map((visitors) => visitUntil(visitors, over.signal));
  try {
    await act();
  } finally {
    over.abort();
  }
  return Promise.all(visiting);
}

async function visitUntil({ url, addresses, isGood }: Visitors, over: AbortSignal): Promise<Visits> {
  const agents = addresses.map((address) => loopbackAgent({ pipelining: 0 }, address));
  const visits: Visits = { sent: 0, failures: [] };
  const pending = new Set<Promise<void>>();

  async function visit(): Promise<void> {
    let problem = "nobody was asked";
    for (const dispatcher of agents) {
      try {
        const reply = await fetch(url, { dispatcher, redirect: "manual", signal: AbortSignal.timeout(answerMs) });
        const page = await reply.text();
        if (reply.status === 200 && isGood(page)) return;
        // An answer is an answer: nobody asks elsewhere because of what it says.
        visits.failures.push(`${reply.status} ${page.slice(0, 200)}`);
        return;
      } catch (error) {
        problem = error instanceof Error ? `${error.message} ${String(error.cause ?? "")}` : String(error);
      }
    }
    visits.failures.push(problem);
  }

  while (!over.aborted) {
    visits.sent += 1;
    const one = visit();
    pending.add(one);
    void one.finally(() => pending.delete(one));
    await delay(everyMs, undefined, { signal: over }).catch(() => {});
  }
  await Promise.all(pending);
  await Promise.all(agents.map((agent) => agent.close()));
  return visits;
}
