import type { Log } from "../../../log.ts";
import type { Leadership } from "../../../stores/etcd/index.ts";
import type { Fleet } from "../fleet.ts";
import { type ClusterStatusValue, keys } from "../keys.ts";
import { type Storm, stormNode, stormOf } from "./rules.ts";
import type { StormRows } from "./store.ts";

export interface StormWatchDeps {
  rows: StormRows;
  fleet: Pick<Fleet, "nodeLink" | "now" | "status" | "wasAwayAtFirst">;
  leadership: Pick<Leadership, "txn">;
  leaderId: string;
  leadingSince: Date;
  log: Log;
}

/** Tells whether replicas of lost nodes may be replaced. */
export interface StormWatch {
  /** Looks at every node, and keeps everybody informed about what it found. */
  look(): Promise<Storm | null>;
  /** The same by what the fleet knows at this moment, of the nodes of the last look. */
  current(): Storm | null;
}

export function createStormWatch(deps: StormWatchDeps): StormWatch {
  const { rows, fleet, leadership, leaderId, leadingSince, log } = deps;
  let known: readonly string[] = [];
  // When a leader noted the loss of what was away before this replica looked; null: nobody has.
  const notedLostAt = new Map<string, Date | null>();

  return {
    async look() {
      const ids = await rows.nodes();
      await learn(ids.filter((id) => isLongAway(id) && !notedLostAt.has(id)));
      known = ids;
      const storm = current();
      await publish(storm);
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
    return stormOf({ now: fleet.now(), leadingSince, nodes });
  }

  /** Once for each of them: as long as they stay away, only this leader adds to their history. */
  async function learn(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const lines = await rows.lastLinks(ids);
    const readAt = fleet.now().getTime();
    for (const id of ids) notedLostAt.set(id, null);
    for (const { node_id, kind, ms_ago, is_last } of lines)
      if (kind === "unreachable" && is_last) notedLostAt.set(node_id, new Date(readAt - ms_ago));
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
