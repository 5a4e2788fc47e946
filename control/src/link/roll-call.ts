import type { Db } from "../db/pool.ts";
import { pause } from "../etcd/clock.ts";
import type { Log } from "../log.ts";
import { rollCall } from "../nodes/store.ts";
import { admit, IdentityFenced } from "./peer.ts";
import type { LiveSession, Roster } from "./roster.ts";

/** Announced when a node's row was fenced or removed, so that its stream ends at once. */
export const nodeChannel = "svc_node";

const batchSize = 1_000;

/**
 * Tells Postgres who was heard, in few statements for all, and ends the streams of those who may no
 * longer speak. A database that does not answer ends nothing.
 */
export async function callRoll({ db, roster, now }: { db: Db; roster: Roster; now: () => Date }): Promise<void> {
  const sessions = [...roster.all()];
  for (let from = 0; from < sessions.length; from += batchSize) {
    const batch = sessions.slice(from, from + batchSize);
    const present = await rollCall(
      db,
      batch.map(({ identity }) => identity),
      now(),
    );
    for (const session of batch) if (!present.has(session.identity.id)) await expel(db, session);
  }
}

async function expel(db: Db, session: LiveSession): Promise<void> {
  try {
    await admit(db, session.identity);
  } catch (error) {
    if (error instanceof IdentityFenced) session.close({ why: "fenced", reason: error.message });
    else session.close({ why: "go away", reconnectAfterMs: 5_000, reason: "the identity is not known any more" });
  }
}

/** Calls the roll every `everyMs` until the signal. */
export async function keepRoll(
  deps: { db: Db; roster: Roster; now: () => Date; log: Log },
  everyMs: number,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await pause(everyMs, signal);
    if (signal.aborted) return;
    await callRoll(deps).catch((error: unknown) => deps.log.warn({ err: error }, "the roll could not be called"));
  }
}
