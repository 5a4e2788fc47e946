import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";
import type { Clock } from "@svc/runtime/clock";
import type { DialPeer } from "../peers/dial.ts";
import type { Refusal } from "../refusals.ts";
import { admitLogin, type Purpose } from "../table/admission.ts";
import { findEntry, type Login, type TableIndex } from "../table/lookup.ts";
import { settle, type Table } from "../table/table.ts";
import type { Opened, OpenServer } from "./servers.ts";

/** The way from this machine to a database's server, wherever that is. */
export interface Door {
  /** The entry that a login may go to now; waits while it is held. */
  admit(login: Login, signal: AbortSignal): Promise<DatabaseProxyEntry | Refusal>;
  open(entry: DatabaseProxyEntry, what: Purpose, signal: AbortSignal): Promise<Opened>;
}

export function createDoor(options: {
  clock: Clock;
  table: Table;
  openServer: OpenServer;
  dialPeer: DialPeer;
  heldMs: number;
}): Door {
  const { clock, table, openServer, dialPeer, heldMs } = options;
  const decideOn = (login: Login) => (index: TableIndex) => {
    const entry = findEntry(index, login);
    if (typeof entry === "string") return entry;
    const admission = admitLogin(entry);
    return admission === "pass" ? entry : admission;
  };
  return {
    admit: (login, signal) => settle(clock, table, { decide: decideOn(login), heldMs, signal }),
    async open(entry, what, signal) {
      const { at, databaseId, epoch } = entry;
      if (at === null) return { refused: "away" };
      if ("socket" in at) return openServer(entry, at.socket, what, signal);
      return dialPeer(at, { databaseId, epoch, ...what }, signal);
    },
  };
}
