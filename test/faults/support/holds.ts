import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { placementsIn } from "../../support/leaders.ts";
import type { Fleet } from "./fleet.ts";
import type { Operation } from "./history.ts";
import type { Node } from "./node.ts";

type Hold = Extract<Operation, { op: "hold" }>;

/** Somebody who notes which machine has what; nothing that it did not see is guessed. */
export interface Watcher extends AsyncDisposable {
  /** Stops it. Returns what it saw; throws when it could not see everything. */
  stop(): Promise<Operation[]>;
}

const lookMs = 200;

/** Looks again and again on which node each placement is, by what etcd says. While etcd is away nothing is seen. */
export function watchPlacements(fleet: Fleet, now: () => number): Watcher {
  const holds: Hold[] = [];
  let seen = new Map<string, Hold>();
  const look = async (): Promise<void> => {
    const askedMs = now();
    const found = await placementsIn({ platform: fleet }).catch(() => null);
    if (found === null) return;
    const answeredMs = now();
    const present = new Map<string, Hold>();
    for (const { node, task } of found) {
      const former = seen.get(`${node}/${task}`);
      const hold = former ?? {
        op: "hold",
        placement: `placement ${task}`,
        machine: node,
        startMs: askedMs,
        endMs: null,
      };
      if (former === undefined) holds.push(hold);
      // It was there at some moment until the answer; of what comes after nothing is known yet.
      hold.endMs = answeredMs;
      present.set(`${node}/${task}`, hold);
    }
    seen = present;
  };
  const end = new AbortController();
  const going = (async () => {
    while (!end.signal.aborted) {
      await look();
      await delay(lookMs, undefined, { signal: end.signal }).catch(() => {});
    }
  })();
  return {
    async stop() {
      end.abort();
      await going;
      return holds;
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      await going;
    },
  };
}

const event = z.looseObject({
  Action: z.enum(["start", "die"]),
  timeNano: z.number(),
  Actor: z.looseObject({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
});

/** Notes from when to when each container of a placement or a command ran, by what the engines tell. They must not end meanwhile. */
export async function watchContainers(fleet: Fleet, now: () => number): Promise<Watcher> {
  // All machines have one clock: that of this one.
  const sinceMs = Date.now() - now();
  const watched = await Promise.all(fleet.nodes.map((node) => watchEngine(node, sinceMs)));
  return {
    async stop() {
      return (await Promise.all(watched.map((each) => each.stop()))).flat();
    },
    async [Symbol.asyncDispose]() {
      for (const each of watched) await each[Symbol.asyncDispose]();
    },
  };
}

async function watchEngine({ name, machine }: Node, sinceMs: number): Promise<Watcher> {
  const holds = new Map<string, Hold[]>();
  const note = (line: string): void => {
    const { Action, timeNano, Actor } = event.parse(JSON.parse(line));
    const atMs = timeNano / 1e6 - sinceMs;
    const of = holds.get(Actor.ID) ?? [];
    holds.set(Actor.ID, of);
    if (Action === "die") {
      const last = of.at(-1);
      if (last !== undefined) last.endMs = atMs;
    } else {
      const { "svc.kind": kind = "", "svc.placement": placement = "" } = Actor.Attributes;
      of.push({ op: "hold", placement: `${kind} ${placement}`, machine: name, startMs: atMs, endMs: null });
    }
  };
  const filters = { type: ["container"], event: ["start", "die"], label: ["svc.placement"] };
  const events = (await machine.docker.getEvents({ filters: JSON.stringify(filters) })) as Readable;
  let problem: unknown = null;
  let stopped = false;
  const lines = createInterface({ input: events });
  lines.on("line", (line) => {
    try {
      note(line);
    } catch (error) {
      problem ??= error;
    }
  });
  const noteError = (error: unknown) => {
    if (!stopped) problem ??= error;
  };
  events.on("error", noteError);
  lines.on("error", noteError);
  lines.on("close", () => {
    if (!stopped) problem ??= new Error(`the engine of ${name} ended`);
  });
  return {
    async stop() {
      stopped = true;
      events.destroy();
      if (problem !== null) throw problem;
      return [...holds.values()].flat();
    },
    async [Symbol.asyncDispose]() {
      stopped = true;
      events.destroy();
    },
  };
}
