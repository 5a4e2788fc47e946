import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change, Node } from "../../../stores/db/tables.ts";
import { throwIf } from "../endpoints/access.ts";
import { moveRefusal } from "./rules.ts";
import { findOpenChange, getOpenChange, insertChange } from "./store.ts";
import { isSuspended } from "./suspended.ts";

type Target = Pick<Node, "id" | "name" | "lifecycle" | "drain" | "schedulable">;

/**
 * Begins a move of the branch, which the caller has locked. Where a keeper has a copy already, that one is used: it takes no longer
 * then than the stop of a server. Throws CONFLICT and DATABASE_NOT_READY.
 *
 * @param asked.to the machine; null: the one that has a copy, or that suits best
 */
export async function beginMove(
  tx: Db,
  branch: Branch,
  asked: { id: string; requestedBy: string; to: string | null },
): Promise<Change> {
  const nodes: Target[] = await tx
    .selectFrom("node")
    .select(["id", "name", "lifecycle", "drain", "schedulable"])
    .where("role", "=", "node")
    .execute();
  const others = nodes.filter((node) => node.id !== branch.node_id && takesWork(node));
  const to = asked.to === null ? null : (nodes.find(({ id }) => id === asked.to) ?? unknown(asked.to));
  throwIf(
    moveRefusal({
      ...{ status: branch.status, nodeId: branch.node_id, hasOther: others.length > 0 },
      standsBy: branch.read_only && branch.engine === "postgres",
      suspended: await isSuspended(tx, branch.project_id),
      changing: (await findOpenChange(tx, branch.id))?.kind ?? null,
      to: to && { id: to.id, name: to.name, isActive: to.lifecycle === "active", isLeaving: !takesWork(to) },
    }),
  );
  const kept = await tx
    .selectFrom("database_copy")
    .selectAll()
    .where("database_id", "=", branch.id)
    .where("purpose", "=", "keeper")
    .where("state", "!=", "ended")
    .executeTakeFirst();
  const isUsed =
    kept?.state === "following" &&
    kept.generation === branch.generation &&
    (asked.to === null ? others.some(({ id }) => id === kept.node_id) : kept.node_id === asked.to);
  await insertChange(tx, branch, {
    ...{ id: asked.id, kind: "move", state: "copying", requested_by: asked.requestedBy },
    ...{ copy_id: isUsed ? kept.id : null, until: null, covered_at: null },
    to_node: isUsed ? kept.node_id : asked.to,
  });
  return getOpenChange(tx, branch.id);
}

/** Whether new work may be placed there, as far as operators have a say. */
export const takesWork = ({
  lifecycle,
  drain,
  schedulable,
}: Pick<Target, "lifecycle" | "drain" | "schedulable">): boolean =>
  lifecycle === "active" && drain === "none" && schedulable;

const unknown = (id: string): Target => ({ id, name: id, lifecycle: "removed", drain: "none", schedulable: false });
