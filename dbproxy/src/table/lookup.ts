// @pure
import type { DatabaseEngine } from "@svc/proto/database";
import type { DatabaseProxyEntry, DatabaseProxyTable } from "@svc/proto/database-proxy";

/** A table, ready to be asked. */
export interface TableIndex {
  generation: bigint;
  byId: ReadonlyMap<string, DatabaseProxyEntry>;
  /** Of one engine, by the address of a bridge whose containers may reach them. */
  byBridge: Readonly<Record<DatabaseEngine, ReadonlyMap<string, readonly DatabaseProxyEntry[]>>>;
  /** By the path of a door: whose copy is kept behind it. */
  byDoor: ReadonlyMap<string, KeptCopy>;
}

/** A copy that is kept on this machine. */
export interface KeptCopy {
  entry: DatabaseProxyEntry;
  copyId: string;
  nodeId: string;
}

/** What is in force before the first table is read. */
export const noTable: TableIndex = indexTable({ generation: "0", entries: [] });

export function indexTable({ generation, entries }: DatabaseProxyTable): TableIndex {
  const bridgesOf = (engine: DatabaseEngine) => {
    const byBridge = new Map<string, DatabaseProxyEntry[]>();
    for (const entry of entries) {
      if (entry.engine !== engine) continue;
      for (const bridge of entry.bridges) byBridge.set(bridge, [...(byBridge.get(bridge) ?? []), entry]);
    }
    return byBridge;
  };
  return {
    generation: BigInt(generation),
    byId: new Map(entries.map((entry) => [entry.databaseId, entry])),
    byDoor: new Map(entries.flatMap((entry) => entry.copies.flatMap(keptCopies(entry)))),
    byBridge: { postgres: bridgesOf("postgres"), mariadb: bridgesOf("mariadb") },
  };
}

const keptCopies =
  (entry: DatabaseProxyEntry) =>
  ({ copyId, nodeId, door }: DatabaseProxyEntry["copies"][number]): [string, KeptCopy][] =>
    door === null ? [] : [[door, { entry, copyId, nodeId }]];

/** What a client says of itself, at the bridge that it came in by. */
export interface Login {
  engine: DatabaseEngine;
  bridge: string;
  user: string;
  /** Null: it names none. */
  database: string | null;
}

/**
 * The one entry that the client may reach, or which part of its word is wrong. Without a name of a database Postgres
 * takes that of the user, which is no database of ours; MariaDB takes none.
 */
export function findEntry(index: TableIndex, login: Login): DatabaseProxyEntry | "user" | "database" {
  const entry = index.byBridge[login.engine].get(login.bridge)?.find(({ role }) => role === login.user);
  if (entry === undefined) return "user";
  const named = login.database ?? (login.engine === "postgres" ? login.user : entry.database);
  return named === entry.database ? entry : "database";
}
