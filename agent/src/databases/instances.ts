// @pure
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import { Desired, Observed } from "@svc/proto/node";
import type { PlacementRecord } from "../journal/records.ts";

/** The engine of the one instance of a database that is meant and serves here; null when there is none. */
export function servingInstance(
  records: readonly PlacementRecord[],
  { databaseId, epoch }: { databaseId: string; epoch: bigint },
): DatabaseEngine | null {
  const found = records.find(
    ({ placement: { spec, epoch: placed, desired }, status }) =>
      spec.case === "database" &&
      spec.value.databaseId === databaseId &&
      placed === epoch &&
      desired < Desired.STOPPED &&
      status.observed === Observed.RUNNING,
  );
  const spec = found?.placement.spec;
  return databaseEngines.find((engine) => spec?.case === "database" && spec.value.engine === engine) ?? null;
}
