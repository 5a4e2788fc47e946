import type { Change, Copy } from "../../../stores/db/tables.ts";
import { type FoundBranch, foundBranch, type ServerPlan } from "../facts.ts";
import { hasReached } from "./position.ts";
import { type RoomFleet, serverRefusal } from "./room.ts";
import type { ChangeRow } from "./rows.ts";
import type { ChangeFacts } from "./steps.ts";

export interface FoundChange {
  change: Change;
  /** Null: it is no more. */
  found: FoundBranch<ServerPlan> | null;
  facts: ChangeFacts;
}

/** Everything that decides a change's next step: what is written down, and what machines and servers say of themselves. */
export function foundChange(row: ChangeRow<ServerPlan>, fleet: RoomFleet): FoundChange {
  const { change, sinceMs, frozenMs, tenantMs, backingUp } = row;
  const found = row.branch && foundBranch(row.branch, fleet);
  return {
    ...{ change, found },
    facts: {
      ...{ kind: change.kind, state: change.state, sinceMs, frozenMs, freezes: change.freezes },
      ...{ undoing: change.undoing, cancelled: change.cancelled, backingUp },
      copy: change.copy_id === null ? null : copyFacts(row, found, fleet),
      volume: change.volume_generation === null ? null : { isLost: row.volumeLost },
      branch: found?.branch.status ?? null,
      projectGone: found?.facts.projectGone ?? true,
      suspended: found?.facts.suspended ?? false,
      nodeGone: found?.facts.nodeGone ?? false,
      servers: found?.facts.servers ?? [],
      tenantCurrent: found?.facts.tenantCurrent ?? false,
      tenantMs,
      rotating: found?.facts.rotating ?? false,
      ...standsBy(found),
    },
  };
}

const gone: NonNullable<ChangeFacts["copy"]> = {
  ...{ state: "broken", problem: "it is gone", nodeGone: false, isHere: false },
  ...{ behindMs: null, hasFrozen: false, refusal: null },
};

function copyFacts(
  { change, copy: row, nodes }: ChangeRow<ServerPlan>,
  found: FoundBranch<ServerPlan> | null,
  fleet: RoomFleet,
): ChangeFacts["copy"] {
  if (row === null) return gone;
  const { copy, behindMs, nodeGone } = row;
  const { node_id: nodeId } = copy;
  // After the switch the server waits for its machine, whatever that says.
  const isAsked = found !== null && nodeId !== null && change.state !== "restoring";
  return {
    ...{ state: copy.state, problem: copy.problem, behindMs, nodeGone },
    isHere: nodeId !== null && nodeId === change.from_node,
    hasFrozen: hasFrozen(change, copy),
    refusal: isAsked ? serverRefusal({ nodes, fleet }, found, nodeId) : null,
  };
}

function standsBy(found: FoundBranch<ServerPlan> | null): Pick<ChangeFacts, "standsBy" | "serverStandsBy"> {
  if (found?.branch.engine !== "postgres") return { standsBy: false, serverStandsBy: false };
  const isReadOnly = found.facts.servers.some(({ wanted, readOnly }) => wanted && readOnly);
  return { standsBy: found.branch.read_only, serverStandsBy: isReadOnly };
}

const hasFrozen = ({ frozen_position }: Change, { engine, position }: Copy): boolean =>
  frozen_position !== null && position !== null && hasReached(engine, position, frozen_position);
