import type { Etcd, View } from "../../stores/etcd/index.ts";
import { decodeVersioned } from "../cluster/entries.ts";
import { keyParts, keys, placementValue } from "../cluster/keys.ts";
import type { NodeIndex } from "../cluster/node-index.ts";
import type { DesiredPlacement } from "../sessions/outbox.ts";

/** What is placed on a node, and the etcd revision at which that was so. */
export interface DesiredState {
  entries: ReadonlyMap<string, DesiredPlacement>;
  revision: bigint;
}

/** What one node is to run, never older than what an earlier session of it was told. */
export interface DesiredSource {
  /** Reads the present state from etcd itself. Throws when no leader appears within a while. */
  read(signal: AbortSignal): Promise<void>;
  current(): DesiredState;
  /** The newest leader epoch that is known; 0n before the first. */
  leaderEpoch(): bigint;
}

const leaderTimeoutMs = 30_000;
const decode = decodeVersioned(placementValue);

/**
 * A replica's watch may be a moment behind the one that held the node before, so a session begins with
 * a read of its own. That snapshot counts until the watch has seen something newer; from then on the watch,
 * which is complete, does.
 */
export function createDesiredSource({
  etcd,
  nodeId,
  leader,
  placements,
}: {
  etcd: Etcd;
  nodeId: string;
  leader: View<bigint>;
  placements: NodeIndex<DesiredPlacement>;
}): DesiredSource {
  const under = keys.placements(nodeId);
  let snapshot: DesiredState | null = null;
  let newestLeader = 0n;
  const heardOf = (epoch: bigint) => {
    if (epoch > newestLeader) newestLeader = epoch;
    return newestLeader;
  };
  const leaderEpoch = () => heardOf(leader.get(keys.leader) ?? 0n);
  return {
    leaderEpoch,
    async read(signal) {
      // The leader first: told too low an epoch, the agent takes less than it could; too high, more than it should.
      const present = await etcd.get(keys.leader);
      heardOf(present?.createRevision ?? 0n);
      if (leaderEpoch() === 0n) await leader.waitFor(() => leaderEpoch() > 0n, leaderTimeoutMs, signal);
      const { entries, revision } = await etcd.range(under);
      snapshot = {
        revision,
        entries: new Map(
          entries.map((entry) => [keyParts(entry.key, under)[0] ?? "", decode(entry.key, entry.value, entry)]),
        ),
      };
    },
    current() {
      const { revision } = placements;
      return snapshot !== null && revision <= snapshot.revision
        ? snapshot
        : { entries: placements.of(nodeId), revision };
    },
  };
}
