import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";
import { applyAnalytics } from "../analytics/apply.ts";
import type { AnalyticsHour } from "../analytics/rules.ts";
import { enterRotation, type NodeFacts, type NoticedChange, saveFacts } from "../nodes/store.ts";
import { type SessionRows, sessionRows } from "../sessions/rows.ts";
import { applyTraffic, type TrafficInput } from "../traffic/apply.ts";

/** What of an edge's row says whether visitors are to come to it. */
export type EdgePlaceRow = Pick<Node, "drain" | "drain_generation" | "schedulable" | "entering">;

/** What a router's session asks of Postgres. */
export interface EdgeRows extends SessionRows {
  /** Keeps what a router told of itself. `entersNow`: it will never say that it is whole, and counts from here on. */
  saveHello(edgeId: string, hello: { facts: NodeFacts; entersNow: boolean; now: Date }): Promise<NoticedChange | null>;
  /** Undefined: it is gone. */
  findPlace(edgeId: string): Promise<EdgePlaceRow | undefined>;
  /** Counts an edge in from now on; false when it was in already. */
  enterRotation(edgeId: string, now: Date): Promise<boolean>;
  /** Counts traffic once; false when it was counted before. */
  applyTraffic(input: TrafficInput): Promise<boolean>;
  applyAnalytics(edgeId: string, hours: readonly AnalyticsHour[]): Promise<void>;
}

export const edgeRows = (db: Db): EdgeRows => ({
  ...sessionRows(db),
  saveHello: (edgeId, { facts, entersNow, now }) =>
    db.transaction().execute(async (tx) => {
      if (entersNow) await enterRotation(tx, edgeId, now);
      return saveFacts(tx, edgeId, facts, now);
    }),
  findPlace: (edgeId) =>
    db
      .selectFrom("node")
      .select(["drain", "drain_generation", "schedulable", "entering"])
      .where("id", "=", edgeId)
      .executeTakeFirst(),
  enterRotation: (edgeId, now) => db.transaction().execute((tx) => enterRotation(tx, edgeId, now)),
  applyTraffic: (input) => applyTraffic(db, input),
  applyAnalytics: (edgeId, hours) => applyAnalytics(db, edgeId, hours),
});
