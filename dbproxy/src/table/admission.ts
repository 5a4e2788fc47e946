// @pure
import type { DatabaseProxyEntry, DatabaseProxyRefusal } from "@svc/proto/database-proxy";

/** What a connection is for, as in `DatabaseProxyDial`. */
export type Purpose = { purpose: "session" | "cancel" } | { purpose: "copy"; copyId: string };

/** wait: what decides is about to change. */
export type Admission = "pass" | "wait" | DatabaseProxyRefusal;

/** Whether a connection of a container may go to the entry that it asked for. */
export function admitLogin({ state, at }: DatabaseProxyEntry): Admission {
  if (state === "closed") return "closed";
  if (state === "held") return "wait";
  return at === null ? "away" : "pass";
}

/**
 * Whether the proxy of the machine `nodeId` may have a connection to the server here. What it says of a later epoch than this
 * table knows is waited for: the two tables are not written at one moment. Nothing is passed on to a third machine. For a
 * copy only the node comes in that keeps it, and that in every state: what is written last has to get there, too.
 */
export function admitDial(
  entry: DatabaseProxyEntry | undefined,
  dial: { epoch: string } & Purpose,
  nodeId: string,
): Admission {
  if (entry === undefined) return "away";
  if (dial.purpose === "copy" && !isKeptBy(entry, dial.copyId, nodeId)) return "away";
  if (BigInt(entry.epoch) < BigInt(dial.epoch)) return "wait";
  if (BigInt(entry.epoch) > BigInt(dial.epoch)) return "away";
  const admission = dial.purpose === "copy" ? "pass" : admitLogin(entry);
  return admission === "pass" && !isHere(entry) ? "away" : admission;
}

const isKeptBy = ({ copies }: DatabaseProxyEntry, copyId: string, nodeId: string): boolean =>
  copies.some((copy) => copy.copyId === copyId && copy.nodeId === nodeId);

/** Whether the entry's server is on this machine. */
export const isHere = ({ at }: DatabaseProxyEntry): boolean => at !== null && "socket" in at;

/** A connection that is there. */
export interface Standing {
  databaseId: string;
  epoch: string;
  /** Whose it is: an app's behind a bridge of this machine, one of another node's apps, or a keeper's. */
  of: { bridge: string } | { nodeId: string } | { copyId: string; nodeId: string };
}

/**
 * Whether a connection stays under another table than the one that let it in. One whose database is held does.
 *
 * @param gone nodes that were fenced or removed
 */
export function mayStay(
  { epoch, of }: Standing,
  entry: DatabaseProxyEntry | undefined,
  gone: ReadonlySet<string>,
): boolean {
  if (entry === undefined || entry.epoch !== epoch) return false;
  if ("nodeId" in of && gone.has(of.nodeId)) return false;
  if ("copyId" in of) return isKeptBy(entry, of.copyId, of.nodeId);
  if (entry.state === "closed") return false;
  return "nodeId" in of || entry.bridges.includes(of.bridge);
}
