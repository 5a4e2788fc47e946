// @pure
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import { Desired, Observed } from "@svc/proto/node";
import type { PlacementRecord } from "../journal/records.ts";

/** A database's server that is to serve here and does, as far as is known. */
export interface ServingInstance {
  databaseId: string;
  epoch: bigint;
  engine: DatabaseEngine;
  /** Of its volume. */
  generation: number;
}

/** Every instance that serves on this node. */
export const servingInstances = (records: readonly PlacementRecord[]): ServingInstance[] =>
  records.flatMap(({ placement: { spec, epoch, desired }, status }) => {
    if (spec.case !== "database" || desired >= Desired.STOPPED || status.observed !== Observed.RUNNING) return [];
    const { databaseId, generation } = spec.value;
    const engine = databaseEngines.find((known) => known === spec.value.engine);
    return engine === undefined ? [] : [{ databaseId, epoch, engine, generation }];
  });

/** The engine of the one instance of a database that is meant and serves here; null when there is none. */
export const servingInstance = (
  records: readonly PlacementRecord[],
  { databaseId, epoch }: { databaseId: string; epoch: bigint },
): DatabaseEngine | null =>
  servingInstances(records).find((each) => each.databaseId === databaseId && each.epoch === epoch)?.engine ?? null;
