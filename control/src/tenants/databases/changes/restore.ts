import { databaseVolume, type RestoreDatabaseInput } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change } from "../../../stores/db/tables.ts";
import { findRestorable } from "../copies/store.ts";
import { throwIf } from "../endpoints/access.ts";
import { findOwnVolume } from "../volumes/store.ts";
import { takesWork } from "./move.ts";
import { reopenRefusal, restoreRefusal } from "./rules.ts";
import { findOpenChange, getOpenChange, insertChange } from "./store.ts";
import { isSuspended } from "./suspended.ts";

/** Begins a restore of the branch, which the caller has locked. Throws CONFLICT, DATABASE_NOT_READY, DESTRUCTIVE_CONFIRMATION_REQUIRED. */
export async function beginRestore(
  tx: Db,
  branch: Branch,
  asked: RestoreDatabaseInput & { id: string; requestedBy: string },
): Promise<Change> {
  const at = asked.at === undefined ? null : new Date(asked.at);
  const { copyId, node } = asked;
  const copy = await findRestorable(tx, branch.id, at ?? undefined, {
    ...(copyId !== undefined && { copyId }),
    ...(node !== undefined && { nodeId: node }),
  });
  throwIf(
    restoreRefusal({
      ...{ status: branch.status, wasReady: branch.role_connection_limit !== null, at },
      suspended: await isSuspended(tx, branch.project_id),
      changing: (await findOpenChange(tx, branch.id))?.kind ?? null,
      copy: copy && { id: copy.id, nodeId: copy.node_id, coveredAt: copy.covered_at },
      range: copy === null ? await rangeOf(tx, branch.id) : null,
      confirmed: asked.confirm === true,
    }),
  );
  await insertChange(tx, branch, {
    ...{ id: asked.id, kind: "restore", state: "stopping", requested_by: asked.requestedBy },
    ...{ copy_id: copy?.id ?? null, until: at, to_node: copy?.node_id ?? null },
    covered_at: at ?? copy?.covered_at ?? null,
  });
  return getOpenChange(tx, branch.id);
}

/**
 * Begins the way of the branch, which the caller has locked, back to a volume that it had before. Throws as `beginRestore`.
 *
 * @param asked.volume its name
 */
export async function beginReopen(
  tx: Db,
  branch: Branch,
  asked: { id: string; requestedBy: string; volume: string; confirm?: boolean },
): Promise<Change> {
  const volumes = await tx
    .selectFrom("database_volume")
    .select(["generation", "node_id"])
    .where("database_id", "=", branch.id)
    .execute();
  const named = volumes.find(({ generation }) => databaseVolume(branch.id, generation) === asked.volume);
  const there = named && (await findOwnVolume(tx, { databaseId: branch.id, generation: named.generation }));
  const home =
    there &&
    (await tx
      .selectFrom("node")
      .select(["lifecycle", "drain", "schedulable"])
      .where("id", "=", there.nodeId)
      .executeTakeFirst());
  throwIf(
    reopenRefusal({
      ...{ status: branch.status, wasReady: branch.role_connection_limit !== null, confirmed: asked.confirm === true },
      suspended: await isSuspended(tx, branch.project_id),
      changing: (await findOpenChange(tx, branch.id))?.kind ?? null,
      volume:
        named === undefined
          ? null
          : {
              isOwn: named.generation === branch.generation && named.node_id === branch.node_id,
              isThere: there !== null,
              isLeaving: home != null && !takesWork(home),
            },
    }),
  );
  await insertChange(tx, branch, {
    ...{ id: asked.id, kind: "restore", state: "stopping", requested_by: asked.requestedBy },
    ...{ copy_id: null, until: null, to_node: there?.nodeId ?? null, covered_at: null },
    volume_generation: named?.generation ?? null,
  });
  return getOpenChange(tx, branch.id);
}

/** From the first whole copy to the last word of any. */
async function rangeOf(tx: Db, databaseId: string): Promise<{ from: Date; to: Date } | null> {
  const { rows } = await sql<{ from: Date | null; to: Date | null }>`
    select min((base ->> 'at')::timestamptz) as "from", max(copy.covered_at) as "to"
    from database_copy copy join node on node.id = copy.node_id, jsonb_array_elements(copy.bases) as base
    where copy.database_id = ${databaseId} and copy.gone_at is null and node.lifecycle = 'active'`.execute(tx);
  const [range] = rows;
  return range?.from && range.to ? { from: range.from, to: range.to } : null;
}
