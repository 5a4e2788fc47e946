import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { NodeEvent } from "../../../stores/db/tables.ts";
import { linkKinds } from "../link-kinds.ts";

/** The last line that the history of a machine's link has. */
export interface LastLink extends Pick<NodeEvent, "node_id" | "kind"> {
  ms_ago: number;
  /** The machine has not come since. */
  is_last: boolean;
}

/** What is asked to tell whether nodes were lost together. */
export interface StormRows {
  /** Nodes in use that came at least once. */
  nodes(): Promise<string[]>;
  /** Of the machines that have a history of their link. */
  lastLinks(nodeIds: readonly string[]): Promise<LastLink[]>;
}

export const stormRows = (db: Db): StormRows => ({
  async nodes() {
    const rows = await db
      .selectFrom("node")
      .select("id")
      .where("role", "=", "node")
      .where("lifecycle", "=", "active")
      .where("last_seen_at", "is not", null)
      .execute();
    return rows.map(({ id }) => id);
  },
  lastLinks: (nodeIds) =>
    db
      .selectFrom("node_event")
      .innerJoin("node", "node.id", "node_event.node_id")
      .distinctOn("node_id")
      .select(["node_id", "kind", sql<number>`extract(epoch from now() - at)::float8 * 1000`.as("ms_ago")])
      // One that has come since then went again, and nobody noted that.
      .select(sql<boolean>`at >= last_seen_at`.as("is_last"))
      .where("node_id", "=", sql<string>`any(${nodeIds}::uuid[])`)
      .where("kind", "in", [...linkKinds])
      .orderBy("node_id")
      .orderBy("node_event.id", "desc")
      .execute(),
});
