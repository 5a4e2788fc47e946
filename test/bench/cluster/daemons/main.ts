/** A process that holds many simulated daemons; run by ../daemons.ts, which talks to it over its IPC channel. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { runAgent } from "./agent.ts";
import { runEdge } from "./edge.ts";
import { openJournal } from "./journal.ts";
import type { Command, DaemonsConfig, DaemonsEvents, DaemonsState } from "./messages.ts";

const [configFile = ""] = process.argv.slice(2);
const config: DaemonsConfig = JSON.parse(readFileSync(configFile, "utf8"));
mkdirSync(config.dir, { recursive: true, mode: 0o700 });
const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
const journal = await openJournal(join(config.dir, "journal"));
const stop = new AbortController();
const counts: DaemonsState = {
  ...{ open: 0, welcomes: 0, running: 0, starts: 0, stops: 0, runStarts: 0, runStartsMax: 0 },
  ...{ refusals: 0, assigned: 0, rssMb: 0 },
};
const events: DaemonsEvents = { assigned: [], runs: [], tables: [] };
const running = new Set<Promise<void>>();

function run(index: number): Promise<void> {
  const kept = config.identities[index];
  if (kept === undefined) return Promise.resolve();
  const identity = { ...kept, incarnation: BigInt(kept.incarnation) };
  const number = config.numbersFrom + index;
  // Control lets no two nodes have one, and lets none that it hears over loopback have another than one of these.
  const address = `127.99.${Math.floor(number / 250)}.${(number % 250) + 1}`;
  const common = { identity, linkUrls: config.linkUrls, address, counts, events, signal: stop.signal };
  return config.role === "edge"
    ? runEdge({ ...common, bootId, dir: join(config.dir, String(index)) })
    : // Each simulated machine has been booted by itself.
      runAgent({ ...common, bootId: `${bootId}/${index}`, journal, startMs: config.startMs });
}

async function start(from: number, to: number, overMs: number): Promise<void> {
  const startedAt = performance.now();
  for (let index = from; index < to && !stop.signal.aborted; index += 1) {
    const dueMs = ((index - from) / Math.max(1, to - from)) * overMs;
    const earlyMs = dueMs - (performance.now() - startedAt);
    if (earlyMs > 1) await delay(earlyMs);
    const daemon = run(index).catch((error: unknown) => console.error(`daemon ${index}: ${String(error)}`));
    running.add(daemon);
    void daemon.finally(() => running.delete(daemon));
  }
}

async function obey(command: Command): Promise<unknown> {
  switch (command.do) {
    case "start":
      void start(command.from, command.to, command.overMs);
      return {};
    case "state":
      return { ...counts, rssMb: process.memoryUsage().rss / 1024 ** 2 };
    case "take": {
      const taken = { ...events };
      Object.assign(events, { assigned: [], runs: [], tables: [] });
      counts.assigned = 0;
      return taken;
    }
    case "stop":
      stop.abort();
      await Promise.all(running);
      return {};
  }
}

process.on("message", (message: { id: number; command: Command }) => {
  obey(message.command)
    .then(
      (reply) => ({ id: message.id, reply }),
      (error: unknown) => ({ id: message.id, error: String(error) }),
    )
    .then((answer) => process.send?.(answer))
    .catch(() => {});
});
// Whoever started this process has gone.
process.on("disconnect", () => process.exit(0));
process.send?.({ ready: true });
