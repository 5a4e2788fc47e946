import type { Renew } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { NodeConditions } from "../nodes/store.ts";
import { persist } from "../sessions/session.ts";

/** Stores what an agent says of its node with every renewal, whenever it changes. */
export interface ConditionWriter {
  report(conditions: NodeConditions): void;
}

const problemLengthMax = 1000;

/** Why a node builds no Dockerfiles, as its agent says it, on one line; null: it does. */
export const problemOf = (said: string): string | null =>
  said
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, problemLengthMax) || null;

/** What a renewal says of its node, in a form that can be kept. */
export const conditionsOf = ({ diskFull, memoryShort, engineStalled, dockerfileProblem }: Renew): NodeConditions => ({
  diskFull,
  memoryShort,
  engineStalled,
  dockerfileProblem: problemOf(dockerfileProblem),
});

const areSame = (a: NodeConditions, b: NodeConditions | null): boolean =>
  a.diskFull === b?.diskFull &&
  a.memoryShort === b.memoryShort &&
  a.engineStalled === b.engineStalled &&
  a.dockerfileProblem === b.dockerfileProblem;

/**
 * Writes one at a time, the newest, and not more often than every `everyMs`: a change wakes the whole cluster. What could
 * not be stored is tried again until `signal` aborts.
 */
export function createConditionWriter({
  clock,
  random,
  store,
  nodeId,
  everyMs,
  log,
  signal,
}: {
  clock: Clock;
  random: Random;
  /** Keeps them, and tells the leader; false when nothing changed. */
  store: (conditions: NodeConditions) => Promise<boolean>;
  nodeId: string;
  everyMs: number;
  log: Log;
  signal: AbortSignal;
}): ConditionWriter {
  let wanted: NodeConditions | null = null;
  let stored: NodeConditions | null = null;
  let writing = false;

  async function write(): Promise<void> {
    while (wanted !== null && !areSame(wanted, stored) && !signal.aborted) {
      const next = wanted;
      const step = async () => {
        if (await store(next)) log.info({ nodeId, ...next }, "node condition");
      };
      await persist(step, { clock, random, signal, log, what: "store the node's condition" });
      stored = next;
      await pause(clock, everyMs, signal);
    }
  }

  return {
    report(conditions) {
      wanted = conditions;
      if (writing) return;
      writing = true;
      write()
        .catch((error: unknown) => log.warn({ err: error, nodeId }, "the node's condition was not stored"))
        .finally(() => {
          writing = false;
        });
    },
  };
}
