import { type ClusterStatusValue, keys } from "@svc/control/fleet/cluster/keys";
import { type Storm, stormNode } from "@svc/control/fleet/cluster/storm/rules";
import type { Work } from "../../kernel/kernel.ts";
import type { Leader } from "./fenced.ts";

/** Tells whether replicas of lost nodes may be replaced: mirrors `control/src/fleet/cluster/storm/watch.ts`. */
export interface StormWatch {
  /** Looks at every node, and keeps everybody informed about what it found. */
  look(): Work<Storm | null>;
  /** The same by what the fleet knows at this moment, of the nodes of the last look. */
  current(): Storm | null;
}

export function createStormWatch({ replica, leadership }: Leader, leadingSince: Date): StormWatch {
  const { fleet, world, id: leaderId } = replica;
  /** Nodes of the last look. */
  let known: readonly string[] = [];
  /** When a leader noted the loss of what was away before this replica looked; null: nobody has. */
  const notedLostAt = new Map<string, Date | null>();

  return {
    *look() {
      const ids = yield* replica.transact((tables) =>
        [...tables.nodes.values()].flatMap(({ id, role, lifecycle, seenAt }) =>
          role === "node" && lifecycle === "active" && seenAt !== null ? [id] : [],
        ),
      );
      yield* learn(ids.filter((id) => isLongAway(id) && !notedLostAt.has(id)));
      known = ids;
      const storm = current();
      yield* publish(storm);
      return storm;
    },
    current,
  };

  function isLongAway(id: string): boolean {
    return fleet.wasAwayAtFirst(id) && fleet.nodeLink(id).link === "unreachable";
  }

  function current(): Storm | null {
    const nodes = known.map((id) =>
      stormNode({
        ...{ id, ...fleet.nodeLink(id) },
        notedLostAt: isLongAway(id) ? (notedLostAt.get(id) ?? null) : null,
      }),
    );
    return world.cores.stormOf({ now: fleet.now(), leadingSince, nodes });
  }

  /** Once for each of them: as long as they stay away, only this leader adds to their history. */
  function* learn(ids: readonly string[]): Work {
    if (ids.length === 0) return;
    const lost = yield* replica.transact((tables) =>
      ids.map((id) => {
        const { lastLink, seenAt } = tables.nodes.get(id) ?? { lastLink: null, seenAt: null };
        // One that has come since then went again, and nobody noted that.
        const isLost = lastLink?.kind === "unreachable" && seenAt !== null && lastLink.at >= seenAt;
        return { id, lostMsAgo: isLost ? world.postgres.nowMs() - lastLink.at.getTime() : null };
      }),
    );
    const readAt = fleet.now().getTime();
    for (const { id, lostMsAgo } of lost) notedLostAt.set(id, lostMsAgo === null ? null : new Date(readAt - lostMsAgo));
  }

  function* publish(storm: Storm | null): Work {
    const value: ClusterStatusValue = {
      leaderId,
      leadingSince: leadingSince.toISOString(),
      storm: storm && { reason: storm.reason, since: storm.since.toISOString() },
    };
    const before = fleet.status();
    if (JSON.stringify(before) === JSON.stringify(value)) return;
    yield* leadership.txn([{ put: { key: keys.clusterStatus, value: world.values.textOf(value) } }]);
  }
}
