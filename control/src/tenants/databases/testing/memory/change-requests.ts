import type { Branch, Change } from "../../../../stores/db/tables.ts";
import { Refused } from "../../../../stores/refused.ts";
import { workTopic } from "../../../../stores/work/queue.ts";
import { takesWork } from "../../changes/move.ts";
import { cancelRefusal, moveRefusal, restoreRefusal } from "../../changes/rules.ts";
import { changeKind, type NewChange, workKey } from "../../changes/store.ts";
import type { Refusal } from "../../rules.ts";
import { told } from "./branch-rows.ts";
import { findRestorable } from "./copies.ts";
import type { Tx } from "./tables.ts";

const throwIf = (refusal: Refusal | null): void => {
  if (refusal !== null) throw new Refused(refusal.code, refusal.message);
};

const usual = { copy_id: null, until: null, to_node: null, covered_at: null, requested_by: "operator" } as const;

/** See `insertChange` of `changes/store.ts`. */
function insertChange(tx: Tx, branch: Branch, change: Omit<NewChange, "id">): Change | null {
  const { branches, work } = tx.tables;
  if (branches.openChange(branch.id) !== null) return null;
  const id = tx.tables.id("x");
  const row: Change = {
    ...{ image: null, volume_generation: null, ...change, id, database_id: branch.id, from_node: branch.node_id },
    ...{ from_generation: branch.generation, frozen_position: null, problem: null, created_at: tx.now },
    ...{ state_at: tx.now, ended_at: null, freezes: 0, undoing: null, cancelled: false },
    frozen_at: change.state === "stopping" ? tx.now : null,
  };
  branches.changes.set(id, row);
  work.add(tx, {
    ...{ kind: changeKind, key: workKey(id) },
    payload: { changeId: id, databaseId: branch.id, projectId: branch.project_id },
  });
  told(tx, branch);
  return row;
}

const facts = ({ tables: { branches } }: Tx, branch: Branch) => ({
  status: branch.status,
  suspended: branches.suspended.has(branch.project_id),
  changing: branches.openChange(branch.id)?.kind ?? null,
});

/** See `beginMove` of `changes/move.ts`. */
export function requestMove(tx: Tx, branch: Branch, to: string | null): Change | null {
  const { nodes, branches } = tx.tables;
  const node = to === null ? undefined : nodes.get(to);
  const others = [...nodes.values()].filter(
    (each) => each.role === "node" && each.id !== branch.node_id && takesWork(each),
  );
  throwIf(
    moveRefusal({
      ...{ ...facts(tx, branch), nodeId: branch.node_id, hasOther: others.length > 0 },
      standsBy: branch.read_only && branch.engine === "postgres",
      to:
        node === undefined
          ? null
          : { id: node.id, name: node.id, isActive: node.lifecycle === "active", isLeaving: !takesWork(node) },
    }),
  );
  const kept = branches.copiesOf(branch.id).find(({ purpose }) => purpose === "keeper");
  const isUsed =
    kept?.state === "following" &&
    kept.generation === branch.generation &&
    (to === null ? others.some(({ id }) => id === kept.node_id) : kept.node_id === to);
  return insertChange(tx, branch, {
    ...{ ...usual, kind: "move", state: "copying" },
    ...(isUsed ? { copy_id: kept.id, to_node: kept.node_id } : { to_node: to }),
  });
}

/** See `beginRestore` of `changes/restore.ts`, to the end of a copy and confirmed. */
export function requestRestore(tx: Tx, branch: Branch): Change | null {
  const copy = findRestorable(tx, branch);
  throwIf(
    restoreRefusal({
      ...{ ...facts(tx, branch), wasReady: branch.role_connection_limit !== null, at: null },
      copy: copy && { id: copy.id, nodeId: copy.node_id, coveredAt: copy.covered_at },
      ...{ range: null, confirmed: true },
    }),
  );
  return insertChange(tx, branch, {
    ...{ ...usual, kind: "restore", state: "stopping" },
    ...{ copy_id: copy?.id ?? null, to_node: copy?.node_id ?? null, covered_at: copy?.covered_at ?? null },
  });
}

/** See `beginUpgrade` of `upgrades/round.ts`. */
export const requestUpgrade = (tx: Tx, branch: Branch, image: string): Change | null =>
  branch.status === "ready" && !tx.tables.backups.isUnderWay(branch.id)
    ? insertChange(tx, branch, { ...usual, kind: "upgrade", state: "stopping", image })
    : null;

/** As an operator who asks for its end; see `changes/endpoints.ts`. */
export function requestCancel(tx: Tx, branch: Branch): void {
  const { nodes, branches, work } = tx.tables;
  const change = branches.openChange(branch.id);
  const home = nodes.get(branch.node_id ?? "");
  const there = home?.lifecycle === "active" ? { name: home.id, takesWork: takesWork(home) } : null;
  throwIf(cancelRefusal(change?.state ?? null, there));
  if (change === null) return;
  branches.changes.set(change.id, { ...change, cancelled: true });
  for (const item of work.items.values())
    if (item.key === workKey(change.id) && item.lease === null) item.runAt = tx.now;
  tx.notify(workTopic, changeKind);
}
