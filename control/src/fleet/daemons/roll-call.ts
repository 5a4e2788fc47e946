import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { rollCall } from "../nodes/store.ts";
import { identityColumns, identityProblem, type NodeIdentityRow } from "../sessions/identity.ts";
import { admit, IdentityFenced } from "../sessions/peer.ts";
import type { LiveSession, Roster } from "../sessions/roster.ts";
import { type SessionRows, sessionRows } from "../sessions/rows.ts";
import type { Tunnels } from "../tunnels/tunnels.ts";

const batchSize = 1_000;

/** What the roll asks of Postgres. */
export interface RollRows extends SessionRows {
  findIdentities(ids: readonly string[]): Promise<NodeIdentityRow[]>;
  /** Notes that these daemons were heard, and returns the ids that still may speak. */
  hear(heard: readonly { id: string; incarnation: number }[], now: Date): Promise<ReadonlySet<string>>;
}

export const rollRows = (db: Db): RollRows => ({
  ...sessionRows(db),
  findIdentities: (ids) =>
    db
      .selectFrom("node")
      .select(identityColumns)
      .where("id", "in", [...ids])
      .execute(),
  hear: (heard, now) => rollCall(db, heard, now),
});

interface RollDeps {
  clock: Clock;
  rows: RollRows;
  roster: Roster;
  tunnels: Pick<Tunnels, "holders" | "endOf">;
}

/**
 * Tells Postgres who was heard, in few statements for all, and ends the streams and tunnels of those who may no
 * longer speak. A database that does not answer ends nothing.
 */
export async function callRoll({ clock, rows, roster, tunnels }: RollDeps): Promise<void> {
  await endTunnels(rows, tunnels);
  const sessions = [...roster.all()];
  for (let from = 0; from < sessions.length; from += batchSize) {
    const batch = sessions.slice(from, from + batchSize);
    const present = await rows.hear(
      batch.map(({ identity }) => identity),
      clock.now(),
    );
    for (const session of batch) if (!present.has(session.identity.id)) await expel(rows, session);
  }
}

/** A tunnel of this replica is of a node whose stream another one may hold, so it is looked after by itself. */
async function endTunnels(rows: RollRows, tunnels: RollDeps["tunnels"]): Promise<void> {
  const holders = tunnels.holders();
  if (holders.length === 0) return;
  const ids = [...new Set(holders.map(({ id }) => id))];
  const rowsById = new Map((await rows.findIdentities(ids)).map((row) => [row.id, row]));
  for (const holder of holders) {
    const row = rowsById.get(holder.id) ?? null;
    const mayNotSpeak = identityProblem(holder, row) !== null || row?.quarantined_at != null;
    if (mayNotSpeak) tunnels.endOf(holder, "Control no longer listens to the database's node.");
  }
}

async function expel(rows: RollRows, session: LiveSession): Promise<void> {
  try {
    await admit(rows, session.identity);
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
