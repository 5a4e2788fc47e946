import { type ClusterStatusValue, keys } from "@svc/control/cluster/keys";
import type { Storm, StormNode } from "@svc/control/cluster/storm/rules";
import type { Work } from "../../kernel/kernel.ts";
import type { Leader } from "./fenced.ts";

/** Tells whether replicas of lost nodes may be replaced: mirrors `control/src/cluster/storm/watch.ts`. */
export interface StormWatch {
  /** Looks at every node, and keeps everybody informed about what it found. */
  look(): Work<Storm | null>;
  /** The same by what the fleet knows at this moment, of the nodes of the last look. */
  current(): Storm | null;
}

export function createStormWatch({ replica, leadership }: Leader, leadingSince: Date): StormWatch {
  const { fleet, world, id: leaderId } = replica;
  /** Nodes of the last look. */
  let known: readonly { id: string; seenMsAgo: number; readAt: Date }[] = [];

  return {
    *look() {
      const rows = yield* replica.transact((tables) =>
        [...tables.nodes.values()].flatMap(({ id, role, lifecycle, seenAt }) =>
          role === "node" && lifecycle === "active" && seenAt !== null
            ? [{ id, seenMsAgo: world.postgres.nowMs() - seenAt.getTime() }]
            : [],
        ),
      );
      const readAt = fleet.now();
      known = rows.map((row) => ({ ...row, readAt }));
      const storm = current();
      yield* publish(storm);
      return storm;
    },
    current,
  };

  function current(): Storm | null {
    const nodes = known.map(({ id, seenMsAgo, readAt }): StormNode => {
      const { link, since } = fleet.nodeLink(id);
      if (link === "connected" || link === "reconciling") return { id, heardSince: since };
      // What was away before this replica looked was lost when it was last heard, and not all at that moment.
      const isLongAway = link === "unreachable" && fleet.wasAwayAtFirst(id);
      return { id, lostAt: isLongAway ? new Date(readAt.getTime() - seenMsAgo) : since };
    });
    return world.cores.stormOf({ now: fleet.now(), leadingSince, nodes });
  }

  function* publish(storm: Storm | null): Work {
    const value: ClusterStatusValue = {
      leaderId,
      leadingSince: leadingSince.toISOString(),
      storm: storm && { reason: storm.reason, since: storm.since.toISOString() },
    };
    const before = fleet.status.get(keys.clusterStatus)?.value;
    if (JSON.stringify(before) === JSON.stringify(value)) return;
    yield* leadership.txn([{ put: { key: keys.clusterStatus, value: world.values.textOf(value) } }]);
  }
}
