// @pure
import type { DatabaseEngine } from "@svc/proto";
import {
  type DatabaseProxyEntry,
  databaseProxyEntriesMax,
  databaseProxyEntry,
  databaseProxyGone,
  databaseProxyGoneMax,
} from "@svc/proto/database-proxy";
import { type DatabaseEntry, DatabaseEntry_State, type DatabaseTable } from "@svc/proto/node";

/** What control has told of databases. */
export interface Told {
  /** Its last table, as far as that was taken. */
  entries: readonly DatabaseEntry[];
  /** The highest epoch that was told of each database, those that are in no table any more included. */
  epochs: ReadonlyMap<string, bigint>;
  /** Nodes and edges that its last table said to be fenced or removed. */
  goneIds: readonly string[];
}

export const nothingTold: Told = { entries: [], epochs: new Map(), goneIds: [] };

/** What this node is and has, as far as its proxy's table depends on that. */
export interface Here {
  nodeId: string;
  /** Where the proxies of other nodes listen, each at its node's address. */
  peerPort: number;
  /** Bridge networks of this node, each with this machine's own address in it. */
  bridges: readonly Bridge[];
  /** Where the server of a database listens; null unless its instance of that epoch serves here. */
  socketOf(database: { databaseId: string; epoch: bigint }): string | null;
  /** Where the keeper of a copy dials that this node keeps. */
  doorOf(copyId: string, engine: DatabaseEngine): string;
}

export interface Bridge {
  projectId: string;
  channel: string;
  address: string;
}

const nowhere: Here = { nodeId: "", peerPort: 1, bridges: [], socketOf: () => null, doorOf: () => "/" };

/**
 * Takes a whole table of control's. An entry is refused when its epoch is lower than what was told before, and when it is
 * not whole or of a later version: then what was taken of that database before stays, if it was in the table until now.
 */
export function takeTable(
  known: Told,
  { entries, goneIds }: Pick<DatabaseTable, "entries" | "goneIds">,
): { told: Told; refused: string[] } {
  const before = new Map(known.entries.map((entry) => [entry.databaseId, entry]));
  const epochs = new Map(known.epochs);
  const taken = new Map<string, DatabaseEntry>();
  const refused = new Set<string>();
  for (const entry of entries) {
    const { databaseId, epoch } = entry;
    const isWhole = databaseProxyEntry.safeParse(toProxyEntry(entry, nowhere)).success;
    if (!isWhole || epoch < (epochs.get(databaseId) ?? 0n) || taken.size >= databaseProxyEntriesMax) {
      refused.add(databaseId);
      const kept = taken.get(databaseId) ?? before.get(databaseId);
      if (kept !== undefined) taken.set(databaseId, kept);
      continue;
    }
    taken.set(databaseId, entry);
    // The end of the map is what was heard of last.
    epochs.delete(databaseId);
    epochs.set(databaseId, epoch);
  }
  const told = { entries: [...taken.values()], epochs: newest(epochs), goneIds: usableIds(goneIds) };
  return { told, refused: [...refused] };
}

/** One that is no id must not keep the proxy from reading the others. */
const usableIds = (ids: readonly string[]): string[] =>
  ids.filter((id) => databaseProxyGone.safeParse({ ids: [id] }).success).slice(0, databaseProxyGoneMax);

/** Those that were heard of last, twice as many as a table may have. */
const newest = (epochs: ReadonlyMap<string, bigint>): Map<string, bigint> =>
  new Map([...epochs].slice(-2 * databaseProxyEntriesMax));

/** The table of this node's proxy, in an order of its own, so that equal tables are equal text. */
export const proxyEntries = (entries: readonly DatabaseEntry[], here: Here): DatabaseProxyEntry[] =>
  entries.map((entry) => toProxyEntry(entry, here)).sort((a, b) => (a.databaseId < b.databaseId ? -1 : 1));

/** Others are of a later version. */
const states: ReadonlyMap<number, DatabaseProxyEntry["state"]> = new Map([
  [DatabaseEntry_State.OPEN, "open"],
  [DatabaseEntry_State.HELD, "held"],
  [DatabaseEntry_State.CLOSED, "closed"],
]);

/** It is as whole as what was told; see `takeTable`. */
function toProxyEntry(entry: DatabaseEntry, here: Here): DatabaseProxyEntry {
  const { databaseId, epoch, engine, role, database, projectId, channel, connectionLimit, state } = entry;
  const bridges = here.bridges.filter((bridge) => bridge.projectId === projectId && bridge.channel === channel);
  return {
    ...{ databaseId, epoch: epoch.toString(), role, database, connectionLimit },
    engine: engine as DatabaseProxyEntry["engine"],
    bridges: bridges.map(({ address }) => address).sort(),
    at: placeOf(entry, here),
    state: states.get(state) as DatabaseProxyEntry["state"],
    copies: entry.copies
      .map(({ copyId, nodeId }) => ({
        ...{ copyId, nodeId },
        door: nodeId === here.nodeId ? here.doorOf(copyId, engine as DatabaseEngine) : null,
      }))
      .sort((a, b) => (a.copyId < b.copyId ? -1 : 1)),
  };
}

/** That its server is on another node is control's word, whatever runs here. */
function placeOf(entry: DatabaseEntry, here: Here): DatabaseProxyEntry["at"] {
  const { nodeId, address, epoch, databaseId } = entry;
  if (nodeId === here.nodeId && nodeId !== "") {
    const socket = here.socketOf({ databaseId, epoch });
    return socket === null ? null : { socket };
  }
  return nodeId === "" || address === "" ? null : { nodeId, host: address, port: here.peerPort };
}
