import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { rollCall } from "../nodes/store.ts";
import { identityColumns, identityProblem } from "../sessions/identity.ts";
import { admit, IdentityFenced } from "../sessions/peer.ts";
import type { LiveSession, Roster } from "../sessions/roster.ts";
import type { Tunnels } from "../tunnels/tunnels.ts";

const batchSize = 1_000;

interface RollDeps {
  clock: Clock;
  db: Db;
  roster: Roster;
  tunnels: Pick<Tunnels, "holders" | "endOf">;
}

/**
 * Tells Postgres who was heard, in few statements for all, and ends the streams and tunnels of those who may no
 * longer speak. A database that does not answer ends nothing.
 */
export async function callRoll({ clock, db, roster, tunnels }: RollDeps): Promise<void> {
  await endTunnels(db, tunnels);
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

/** A tunnel of this replica is of a node whose stream another one may hold, so it is looked after by itself. */
async function endTunnels(db: Db, tunnels: RollDeps["tunnels"]): Promise<void> {
  const holders = tunnels.holders();
  if (holders.length === 0) return;
  const ids = [...new Set(holders.map(({ id }) => id))];
  const rows = await db.selectFrom("node").select(identityColumns).where("id", "in", ids).execute();
  const rowsById = new Map(rows.map((row) => [row.id, row]));
  for (const holder of holders) {
    const row = rowsById.get(holder.id) ?? null;
    const mayNotSpeak = identityProblem(holder, row) !== null || row?.quarantined_at != null;
    if (mayNotSpeak) tunnels.endOf(holder, "Control no longer listens to the database's node.");
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
export async function keepRoll(deps: RollDeps & { log: Log }, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(deps.clock, everyMs, signal);
    if (signal.aborted) return;
    await callRoll(deps).catch((error: unknown) => deps.log.warn({ err: error }, "the roll could not be called"));
  }
}
