// @pure
import type { DatabaseProxyDial, DatabaseProxyEntry, DatabaseProxyRefusal } from "@svc/proto/database-proxy";

/** wait: what decides is about to change. */
export type Admission = "pass" | "wait" | DatabaseProxyRefusal;

/** Whether a connection of a container may go to the entry that it asked for. */
export function admitLogin({ state, at }: DatabaseProxyEntry): Admission {
  if (state === "closed") return "closed";
  if (state === "held") return "wait";
  return at === null ? "away" : "pass";
}

/**
 * Whether another machine's proxy may have a connection to the server here. What it says of a later epoch than this table
 * knows is waited for: the two tables are not written at one moment. Nothing is passed on to a third machine.
 */
export function admitDial(
  entry: DatabaseProxyEntry | undefined,
  { epoch }: Pick<DatabaseProxyDial, "epoch">,
): Admission {
  if (entry === undefined) return "away";
  if (BigInt(entry.epoch) < BigInt(epoch)) return "wait";
  if (BigInt(entry.epoch) > BigInt(epoch)) return "away";
  const admission = admitLogin(entry);
  return admission === "pass" && !isHere(entry) ? "away" : admission;
}

/** Whether the entry's server is on this machine. */
export const isHere = ({ at }: DatabaseProxyEntry): boolean => at !== null && "socket" in at;

/** A connection that is there. */
export interface Standing {
  databaseId: string;
  epoch: string;
  /** Null: it came from another machine's proxy. */
  bridge: string | null;
}

/** Whether a connection stays under another table than the one that let it in. One whose database is held does. */
export function mayStay({ epoch, bridge }: Standing, entry: DatabaseProxyEntry | undefined): boolean {
  if (entry === undefined || entry.epoch !== epoch || entry.state === "closed") return false;
  return bridge === null || entry.bridges.includes(bridge);
}
