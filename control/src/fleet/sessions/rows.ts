import type { DaemonIdentity } from "@svc/proto/daemon-identity";
import type { Db } from "../../stores/db/pool.ts";
import { rollCall } from "../nodes/store.ts";
import { findIdentity, identityColumns, type NodeIdentityRow } from "./identity.ts";

/** What every session asks of Postgres. */
export interface SessionRows {
  /** The row that an identity names; null when there is none. */
  findIdentity(id: string): Promise<NodeIdentityRow | null>;
}

export const sessionRows = (db: Db): SessionRows => ({ findIdentity: (id) => findIdentity(db, id) });

/** What the roll asks of Postgres. */
export interface RollRows extends SessionRows {
  findIdentities(ids: readonly string[]): Promise<NodeIdentityRow[]>;
  /** Notes that these daemons were heard, and returns the ids that still may speak. */
  hear(heard: readonly Pick<DaemonIdentity, "id" | "incarnation">[], now: Date): Promise<ReadonlySet<string>>;
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
