import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Change, Copy } from "../../../stores/db/tables.ts";
import { type FoundBranch, isNodeGone, readBranchFacts } from "../facts.ts";
import { findOwnVolume } from "../volumes/store.ts";
import { hasReached } from "./position.ts";
import type { ChangeFacts } from "./steps.ts";

export interface FoundChange {
  change: Change;
  /** Null: it is no more. */
  found: FoundBranch | null;
  facts: ChangeFacts;
}

/** Everything that decides a change's next step, read afresh; null when it is no more. */
export async function readChangeFacts(
  deps: { db: Db; fleet: Pick<Fleet, "observation"> },
  id: string,
): Promise<FoundChange | null> {
  const { db } = deps;
  const row = await db
    .selectFrom("database_change")
    .selectAll()
    .select(sql<number>`extract(epoch from clock_timestamp() - state_at)::float8 * 1000`.as("since_ms"))
    .select(sql<number | null>`extract(epoch from clock_timestamp() - frozen_at)::float8 * 1000`.as("frozen_ms"))
    .select(
      sql<number | null>`(select extract(epoch from clock_timestamp() - tenant_at)::float8 * 1000
        from database where database.id = database_change.database_id)`.as("tenant_ms"),
    )
    .where("id", "=", id)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { since_ms, frozen_ms, tenant_ms, ...change } = row;
  const [found, copy, volume, backingUp] = await Promise.all([
    readBranchFacts(deps, change.database_id),
    change.copy_id === null ? null : readCopyFacts(db, change, change.copy_id),
    change.volume_generation === null
      ? null
      : findOwnVolume(db, { databaseId: change.database_id, generation: change.volume_generation }),
    isBackingUp(db, change.database_id),
  ]);
  return {
    change,
    found,
    facts: {
      ...{ kind: change.kind, state: change.state, sinceMs: since_ms, frozenMs: frozen_ms, freezes: change.freezes },
      ...{ undoing: change.undoing, cancelled: change.cancelled, backingUp, copy },
      volume: change.volume_generation === null ? null : { isLost: volume === null },
      branch: found?.branch.status ?? null,
      projectGone: found?.facts.projectGone ?? true,
      suspended: found?.facts.suspended ?? false,
      nodeGone: found?.facts.nodeGone ?? false,
      servers: found?.facts.servers ?? [],
      tenantCurrent: found?.facts.tenantCurrent ?? false,
      tenantMs: tenant_ms,
      rotating: found?.facts.rotating ?? false,
    },
  };
}

async function readCopyFacts(db: Db, change: Change, copyId: string): Promise<ChangeFacts["copy"]> {
  const copy = await db
    .selectFrom("database_copy")
    .selectAll()
    .select(sql<number | null>`extract(epoch from clock_timestamp() - covered_at)::float8 * 1000`.as("behind_ms"))
    .where("id", "=", copyId)
    .executeTakeFirst();
  if (copy === undefined)
    return { state: "broken", problem: "it is gone", nodeGone: false, isHere: false, behindMs: null, hasFrozen: false };
  return {
    ...{ state: copy.state, problem: copy.problem, behindMs: copy.behind_ms },
    nodeGone: await isNodeGone(db, copy.node_id),
    isHere: copy.node_id !== null && copy.node_id === change.from_node,
    hasFrozen: hasFrozen(change, copy),
  };
}

const hasFrozen = ({ frozen_position }: Change, { engine, position }: Copy): boolean =>
  frozen_position !== null && position !== null && hasReached(engine, position, frozen_position);

async function isBackingUp(db: Db, databaseId: string): Promise<boolean> {
  const backup = await db
    .selectFrom("database_backup")
    .select("id")
    .where("database_id", "=", databaseId)
    .where("status", "in", ["pending", "running"])
    .executeTakeFirst();
  return backup !== undefined;
}
