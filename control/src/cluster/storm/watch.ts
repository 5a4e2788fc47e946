import { sql } from "kysely";
import type { Db } from "../../db/pool.ts";
import type { Leadership } from "../../etcd/index.ts";
import type { Log } from "../../log.ts";
import type { Fleet } from "../fleet.ts";
import { type ClusterStatusValue, keys } from "../keys.ts";
import { type Storm, type StormNode, stormOf } from "./rules.ts";

export interface StormWatchDeps {
  db: Db;
  fleet: Pick<Fleet, "nodeLink" | "lookingSince" | "wasAwayAtFirst" | "status">;
  leadership: Leadership;
  leaderId: string;
  leadingSince: Date;
  log: Log;
  /** The clock of the fleet. */
  now: () => Date;
}

/** Tells whether replicas of lost nodes may be replaced. */
export interface StormWatch {
  /** Looks at every node, and keeps everybody informed about what it found. */
  look(): Promise<Storm | null>;
  /** The same by what the fleet knows at this moment, of the nodes of the last look. */
  current(): Storm | null;
}

export function createStormWatch(deps: StormWatchDeps): StormWatch {
  const { db, fleet, leadership, leaderId, leadingSince, log, now } = deps;
  let known: readonly { id: string; seenMsAgo: number; readAt: Date }[] = [];

  return {
    async look() {
      const rows = await db
        .selectFrom("node")
        .select(["id", sql<number>`extract(epoch from now() - last_seen_at)::float8 * 1000`.as("seen_ms_ago")])
        .where("role", "=", "node")
        .where("lifecycle", "=", "active")
        .where("last_seen_at", "is not", null)
        .execute();
      const readAt = now();
      known = rows.map(({ id, seen_ms_ago }) => ({ id, seenMsAgo: seen_ms_ago, readAt }));
      const storm = current();
      await publish(storm);
      return storm;
    },
    current,
  };

  function current(): Storm | null {
    const nodes = known.map(({ id, seenMsAgo, readAt }): StormNode => {
      const { link, since } = fleet.nodeLink(id);
      if (link === "connected" || link === "reconciling") return { id, heardSince: since };
      // What was away before this replica looked was lost when it was last heard, and not all at that moment.
      const lastSeen = new Date(readAt.getTime() - seenMsAgo);
      return { id, lostAt: link === "unreachable" && fleet.wasAwayAtFirst(id) ? lastSeen : since };
    });
    return stormOf({ now: now(), leadingSince, nodes });
  }

  async function publish(storm: Storm | null): Promise<void> {
    const value: ClusterStatusValue = {
      leaderId,
      leadingSince: leadingSince.toISOString(),
      storm: storm && { reason: storm.reason, since: storm.since.toISOString() },
    };
    const before = fleet.status();
    if (JSON.stringify(before) === JSON.stringify(value)) return;
    await leadership.txn([{ put: { key: keys.clusterStatus, value: JSON.stringify(value) } }]);
    if (before?.storm?.reason !== value.storm?.reason) log.warn({ storm: value.storm }, "storm guard");
  }
}
