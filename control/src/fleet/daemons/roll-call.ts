import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { rollCall } from "../nodes/store.ts";
import { admit, IdentityFenced } from "../sessions/peer.ts";
import type { LiveSession, Roster } from "../sessions/roster.ts";

const batchSize = 1_000;

/**
 * Tells Postgres who was heard, in few statements for all, and ends the streams of those who may no
 * longer speak. A database that does not answer ends nothing.
 */
export async function callRoll({ clock, db, roster }: { clock: Clock; db: Db; roster: Roster }): Promise<void> {
  const sessions = [...roster.all()];
  for (let from = 0; from < sessions.length; from += batchSize) {
    const batch = sessions.slice(from, from + batchSize);
    const present = await rollCall(
      db,
      batch.map(({ identity }) => identity),
      clock.now(),
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
  deps: { clock: Clock; db: Db; roster: Roster; log: Log },
  everyMs: number,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await pause(deps.clock, everyMs, signal);
    if (signal.aborted) return;
    await callRoll(deps).catch((error: unknown) => deps.log.warn({ err: error }, "the roll could not be called"));
  }
}
