import { sql } from "kysely";
import { wakeDatabases } from "../../identity/plans/reconcile-databases.ts";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { hasEnded, isFallenOver } from "../cluster/keys.ts";

/** What rounds about servers that failed ask of Postgres. */
export interface FailedServerRows {
  /** Has these branches looked at, each once however often it is asked for meanwhile. */
  lookAt(databaseIds: readonly string[]): Promise<void>;
}

export const failedServerRows = (db: Db): FailedServerRows => ({
  lookAt: async (ids) => void (await wakeDatabases(db, sql<boolean>`database.id = any(${[...ids]}::uuid[])`)),
});

/**
 * A round that has a branch looked at while its server is to run and has come to its end, or falls over: whoever asked for that server
 * is done, and nobody else would tell that the branch is without one.
 */
export const lookAtFailed =
  ({ rows, fleet }: { rows: FailedServerRows; fleet: Pick<Fleet, "placements" | "observation"> }) =>
  async (): Promise<void> => {
    const failed = fleet.placements().flatMap(({ nodeId, placement: { placementId, kind, ownerId, desired } }) => {
      if (kind !== "database" || desired !== "running" || !uuid.test(ownerId)) return [];
      const seen = fleet.observation(nodeId, placementId);
      return seen !== null && (hasEnded(seen.observed) || isFallenOver(seen)) ? [ownerId] : [];
    });
    if (failed.length > 0) await rows.lookAt([...new Set(failed)]);
  };
