import { createBatch } from "@svc/runtime/batch";
import type { Clock } from "@svc/runtime/clock";
import type { Db } from "../../stores/db/pool.ts";
import { loadVolumesOfNodes } from "./facts.ts";
import { volumesToRemove } from "./rules.ts";

/** Names of the volumes that a node is to remove, read afresh. What many sessions ask for at once is read together. */
export type LoadVolumesToRemove = (nodeId: string) => Promise<string[]>;

const nodesAtOnce = 200;
const waitingMax = 100_000;

export function createLoadVolumesToRemove(clock: Clock, db: Db): LoadVolumesToRemove {
  const load = createBatch<string[]>({
    clock,
    async ask(nodeIds) {
      const volumes = await loadVolumesOfNodes(db, nodeIds);
      return nodeIds.map((nodeId) => volumesToRemove(volumes.get(nodeId) ?? []));
    },
    sizeMax: nodesAtOnce,
    waitingMax,
  });
  return async (nodeId) => (await load(nodeId)) ?? [];
}
