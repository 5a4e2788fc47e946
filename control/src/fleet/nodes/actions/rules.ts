// @pure
import { limits, type NodeAction } from "@svc/proto";
import type { Node } from "../../../stores/db/tables.ts";

/** What an operator said with an action. */
export interface ActionWords {
  reason?: string;
  deadlineSeconds?: number;
  moveDatabases?: boolean;
}

/** What an action makes of a row, and the lines that its history gets. */
export interface NodeChange {
  set: Partial<
    Pick<
      Node,
      | "lifecycle"
      | "incarnation"
      | "schedulable"
      | "drain"
      | "drain_generation"
      | "drain_started_at"
      | "drain_deadline"
      | "drain_moves_databases"
      | "reason"
    >
  >;
  events: { kind: string; detail: string | null }[];
}

const noDrain = { drain: "none", drain_started_at: null, drain_deadline: null, drain_moves_databases: false } as const;

/**
 * What an allowed action does. `takesItsTime`: an edge that says how far it is, so that its drain is over when it says so.
 * Every end of a drain raises its generation, so that nothing decided before is done any more.
 */
export function nodeChange(
  action: NodeAction,
  node: Pick<Node, "role" | "incarnation" | "drain_generation" | "reason"> & { takesItsTime?: boolean },
  { reason, deadlineSeconds = limits.drainSecondsDefault, moveDatabases = false }: ActionWords,
  now: Date,
): NodeChange {
  const detail = reason ?? null;
  const drain_generation = node.drain_generation + 1;
  switch (action) {
    case "cordon":
      return { set: { schedulable: false, reason: detail }, events: [{ kind: "cordoned", detail }] };
    case "uncordon":
      return { set: { schedulable: true, reason: null }, events: [{ kind: "uncordoned", detail }] };
    case "drain":
      return drainChange(node, { detail, deadlineSeconds, drain_generation, moveDatabases }, now);
    case "cancel-drain":
      return {
        set: { ...noDrain, drain_generation, reason: detail ?? node.reason },
        events: [{ kind: "drain-canceled", detail }],
      };
    case "force-fence":
      return {
        set: {
          ...{ ...noDrain, drain_generation, lifecycle: "fenced", schedulable: false, reason: detail },
          incarnation: node.incarnation + 1,
        },
        events: [{ kind: "fenced", detail }],
      };
    case "remove":
      return {
        set: { ...noDrain, drain_generation, lifecycle: "removed", schedulable: false, reason: detail ?? node.reason },
        events: [{ kind: "removed", detail }],
      };
  }
}

/**
 * Nothing is placed on an edge, so one that nobody waits for any more is drained, unless it sends its visitors away first.
 * Where they go is for whoever asks for its health, or the operator, to change.
 */
function drainChange(
  { role, takesItsTime = false }: Pick<Node, "role"> & { takesItsTime?: boolean },
  {
    detail,
    deadlineSeconds,
    drain_generation,
    moveDatabases,
  }: { detail: string | null; deadlineSeconds: number; drain_generation: number; moveDatabases: boolean },
  now: Date,
): NodeChange {
  const common = { schedulable: false, drain_generation, drain_started_at: now, reason: detail };
  const started = { kind: "drain-started", detail };
  if (role === "edge" && !takesItsTime) {
    return {
      set: { ...common, drain: "drained", drain_deadline: null },
      events: [started, { kind: "drained", detail: null }],
    };
  }
  const drain_deadline = new Date(now.getTime() + deadlineSeconds * 1000);
  const draining = { drain: "draining", drain_deadline, drain_moves_databases: moveDatabases } as const;
  return { set: { ...common, ...draining }, events: [started] };
}
