import { keys, type PlacementValue } from "@svc/control/fleet/cluster/keys";
import type { DesiredPlacement } from "@svc/control/fleet/sessions/outbox";
import { EtcdError } from "@svc/control/stores/etcd/errors";
import { pause, type Work, wait } from "../../kernel/kernel.ts";
import type { Replica } from "../replica.ts";

/** What is placed on a node, and the revision at which that was so. */
interface DesiredState {
  entries: ReadonlyMap<string, DesiredPlacement>;
  revision: bigint;
}

/** What one node is to run, never older than what an earlier session of it was told. */
export interface DesiredSource {
  /** Reads the present state from etcd itself. Throws when no leader appears within a while. */
  read(): Work;
  current(): DesiredState;
  /** The newest leader epoch that is known; 0n before the first. */
  leaderEpoch(): bigint;
}

/**
 * A session begins with a read of its own, which counts until the replica's watch has seen something newer: mirrors
 * `control/src/fleet/agents/desired-source.ts`.
 */
export function createDesiredSource({ client, fleet, world }: Replica, nodeId: string): DesiredSource {
  let snapshot: DesiredState | null = null;
  let newestLeader = 0n;
  const leaderEpoch = () => {
    for (const { createRevision } of fleet.leader.values.values()) {
      if (createRevision > newestLeader) newestLeader = createRevision;
    }
    return newestLeader;
  };
  return {
    leaderEpoch,
    *read() {
      const leader = yield* client.get(keys.leader);
      if ((leader?.createRevision ?? 0n) > newestLeader) newestLeader = leader?.createRevision ?? 0n;
      for (let tries = 0; leaderEpoch() === 0n && tries < 300; tries += 1) yield* wait(pause(100));
      if (leaderEpoch() === 0n) throw new EtcdError("TIMEOUT", "no leader");
      const { entries, revision } = yield* client.range(keys.placements(nodeId));
      snapshot = {
        revision,
        entries: new Map(
          entries.map(({ value, modRevision, createRevision }) => {
            const placement = world.values.of<PlacementValue>(value);
            return [placement.placementId, { value: placement, modRevision, createRevision }];
          }),
        ),
      };
    },
    current() {
      const { revision } = fleet.placements;
      if (snapshot !== null && revision <= snapshot.revision) return snapshot;
      return { entries: fleet.byNode.get(nodeId) ?? new Map<string, DesiredPlacement>(), revision };
    },
  };
}
