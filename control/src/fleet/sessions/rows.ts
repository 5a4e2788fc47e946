import type { Db } from "../../stores/db/pool.ts";
import { findIdentity, type NodeIdentityRow } from "./identity.ts";

/** What every session asks of Postgres. */
export interface SessionRows {
  /** The row that an identity names; null when there is none. */
  findIdentity(id: string): Promise<NodeIdentityRow | null>;
}

export const sessionRows = (db: Db): SessionRows => ({ findIdentity: (id) => findIdentity(db, id) });
