import type { Db } from "../../../stores/db/pool.ts";
import type { Node, NodeEvent } from "../../../stores/db/tables.ts";
import { linkKinds } from "../../cluster/link-kinds.ts";
import { insertNodeEvents, type NewNodeEvent } from "./store.ts";

/** What is asked to keep the history of links, and told. */
export interface LinkRows {
  /** Machines in use. */
  machines(): Promise<Pick<Node, "id" | "created_at" | "quarantined_at">[]>;
  /** The last line about its link of each of these machines that has one. */
  lastLinks(nodeIds: readonly string[]): Promise<Pick<NodeEvent, "node_id" | "kind">[]>;
  /** Those of the machines that have a history, be it of anything. */
  withHistory(nodeIds: readonly string[]): Promise<string[]>;
  /** In this order; all or none. */
  add(events: readonly NewNodeEvent[]): Promise<void>;
}

export const linkRows = (db: Db): LinkRows => ({
  machines: () =>
    db.selectFrom("node").select(["id", "created_at", "quarantined_at"]).where("lifecycle", "=", "active").execute(),
  lastLinks: (nodeIds) =>
    db
      .selectFrom("node_event")
      .distinctOn("node_id")
      .select(["node_id", "kind"])
      .where("node_id", "in", nodeIds)
      .where("kind", "in", [...linkKinds])
      .orderBy("node_id")
      .orderBy("id", "desc")
      .execute(),
  async withHistory(nodeIds) {
    const rows = await db
      .selectFrom("node_event")
      .select("node_id")
      .distinct()
      .where("node_id", "in", nodeIds)
      .execute();
    return rows.map(({ node_id }) => node_id);
  },
  add: (events) => insertNodeEvents(db, events),
});
