import type { Change, Copy } from "../../../stores/db/tables.ts";

/** Names of machines by id, those that are gone included. */
export type NodeNames = ReadonlyMap<string, string>;

export const nodeView = (names: NodeNames, id: string | null) =>
  id === null ? null : { id, name: names.get(id) ?? id };

const when = (at: Date | null): string | null => at?.toISOString() ?? null;

export const changeView = (change: Change, names: NodeNames) => ({
  ...{ id: change.id, kind: change.kind, state: change.state, copyId: change.copy_id },
  ...{ until: when(change.until), coveredAt: when(change.covered_at), problem: change.problem },
  ...{ to: nodeView(names, change.to_node), from: nodeView(names, change.from_node) },
  ...{ tries: change.freezes, requestedBy: change.requested_by },
  blockedMs:
    change.frozen_at === null || change.ended_at === null || change.state !== "done"
      ? null
      : change.ended_at.getTime() - change.frozen_at.getTime(),
  createdAt: change.created_at.toISOString(),
  stateAt: change.state_at.toISOString(),
  endedAt: when(change.ended_at),
});

export const copyView = (copy: Copy, names: NodeNames) => ({
  ...{ id: copy.id, node: nodeView(names, copy.node_id), purpose: copy.purpose, state: copy.state },
  ...{ generation: copy.generation, problem: copy.problem, bytes: copy.bytes },
  from: copy.bases[0]?.at ?? null,
  ...{ coveredAt: when(copy.covered_at), purgeAt: when(copy.purge_at) },
});
