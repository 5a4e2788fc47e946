import {
  type DrainNodeInput,
  drainNodeInput,
  idParams,
  type NodeAction,
  nodeActionInput,
  nodeActionReply,
  nodeActions,
  nodeStatus,
} from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import type { Node } from "../../../stores/db/tables.ts";
import { endpoint } from "../../endpoint.ts";
import { axesOf } from "../circumstances.ts";
import { actOnNode } from "./act.ts";

const summaries: Readonly<Record<NodeAction, string>> = {
  cordon: "Keep new work off a node, or take an edge out of rotation, so that no deployment waits for it.",
  uncordon: "Let a node take new work again, or put an edge back into rotation.",
  drain:
    "Move everything off a node, replacement first, until a deadline. An edge is out of rotation at once, and drained when it has sent its visitors away.",
  "cancel-drain": "End a drain. What has moved stays where it is, and the machine stays cordoned.",
  "force-fence":
    "Declare a machine that cannot be reached off or cut from the network, for ever. Its identity is refused.",
  remove: "Take a drained or fenced machine out of the fleet, for ever.",
};

/** One endpoint per action: they differ in what they say of themselves, and a drain takes a deadline. */
const actionEndpoint = (action: NodeAction) =>
  endpoint({
    method: "POST",
    path: `/admin/nodes/:id/${action}`,
    access: "admin",
    summary: summaries[action],
    params: idParams,
    // Most need no body at all.
    body: (action === "drain" ? drainNodeInput : nodeActionInput).prefault({}),
    status: 202,
    reply: nodeActionReply,
    errors: ["CLUSTER_SCHEDULER_DISABLED", "NODE_ACTION_UNAVAILABLE", "IDEMPOTENCY_CONFLICT"],
    handle({ fleet, clock, config, createOnce }, { caller, params, body, address, idempotencyKey }) {
      if (!config.schedulerEnabled) throw new ApiError("CLUSTER_SCHEDULER_DISABLED");
      const { confirm = false, ...words }: DrainNodeInput = body;
      const attempt = { caller, idempotencyKey, request: [`POST node ${action}`, params.id, body], status: 202 };
      return createOnce(attempt, async (tx) => {
        const outcome = await actOnNode(tx, fleet, params.id, action, { words, confirm, now: clock.now() });
        if (outcome === null) throw new ApiError("NOT_FOUND");
        if ("problem" in outcome) throw new ApiError("NODE_ACTION_UNAVAILABLE", { message: outcome.problem });
        const { node } = outcome;
        const { reason } = words;
        const detail = {
          ...{ role: node.role, name: node.name },
          ...(reason !== undefined && { reason }),
          ...(action === "drain" && node.drain_moves_databases && { movesDatabases: true }),
          ...(action === "drain" && node.drain_deadline && { deadline: node.drain_deadline.toISOString() }),
        };
        await recordAudit(tx, { caller, address, action: `node.${action}`, target: node.id, detail });
        const status = nodeStatus(axesOf(node, fleet));
        return { queued: goesOn(action, node), action, node: { id: node.id, name: node.name, status } };
      });
    },
  });

/** Whether something is left to do once the reply is sent; else all that was asked for is done. */
const goesOn = (action: NodeAction, { drain }: Pick<Node, "drain">): boolean =>
  action === "force-fence" || (action === "drain" && drain === "draining");

export const nodeActionEndpoints = nodeActions.map(actionEndpoint);
