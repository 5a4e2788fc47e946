import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Change, Copy } from "../../../stores/db/tables.ts";
import { type FoundBranch, isNodeGone, readBranchFacts } from "../facts.ts";
import { findOwnVolume } from "../volumes/store.ts";
import { hasReached } from "./position.ts";
import { type RoomFleet, readServerRefusal } from "./room.ts";
import type { ChangeFacts } from "./steps.ts";

export interface FoundChange {
  change: Change;
  /** Null: it is no more. */
  found: FoundBranch | null;
  facts: ChangeFacts;
}

/** Everything that decides a change's next step, read afresh; null when it is no more. */
export async function readChangeFacts(deps: { db: Db; fleet: RoomFleet }, id: string): Promise<FoundChange | null> {
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
  const found = await readBranchFacts(deps, change.database_id);
  const [copy, volume, backingUp] = await Promise.all([
    change.copy_id === null ? null : readCopyFacts(deps, change, { copyId: change.copy_id, found }),
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
      ...standsBy(found),
    },
  };
}

async function readCopyFacts(
  deps: { db: Db; fleet: RoomFleet },
  change: Change,
  { copyId, found }: { copyId: string; found: FoundBranch | null },
): Promise<ChangeFacts["copy"]> {
  const { db } = deps;
  const copy = await db
    .selectFrom("database_copy")
    .selectAll()
    .select(sql<number | null>`extract(epoch from clock_timestamp() - covered_at)::float8 * 1000`.as("behind_ms"))
    .where("id", "=", copyId)
    .executeTakeFirst();
  if (copy === undefined) {
    const gone = { state: "broken", problem: "it is gone", nodeGone: false, isHere: false } as const;
    return { ...gone, behindMs: null, hasFrozen: false, refusal: null };
  }
  // After the switch the server waits for its machine, whatever that says.
  const isAsked = found !== null && copy.node_id !== null && change.state !== "restoring";
  return {
    ...{ state: copy.state, problem: copy.problem, behindMs: copy.behind_ms },
    nodeGone: await isNodeGone(db, copy.node_id),
    isHere: copy.node_id !== null && copy.node_id === change.from_node,
    hasFrozen: hasFrozen(change, copy),
    refusal: isAsked && copy.node_id !== null ? await readServerRefusal(deps, found, copy.node_id) : null,
  };
}

function standsBy(found: FoundBranch | null): Pick<ChangeFacts, "standsBy" | "serverStandsBy"> {
  if (found?.branch.engine !== "postgres") return { standsBy: false, serverStandsBy: false };
  const isReadOnly = found.facts.servers.some(({ wanted, readOnly }) => wanted && readOnly);
  return { standsBy: found.branch.read_only, serverStandsBy: isReadOnly };
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
