import { idParams, labelNodeInput, labelNodeReply } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Node } from "../../../stores/db/tables.ts";
import { shownLabels } from "../../cluster/labels.ts";
import { taskTopic } from "../../cluster/topics.ts";
import { endpoint } from "../../endpoint.ts";
import { insertNodeEvents } from "../events/store.ts";
import { changedLabels, labelChangeText } from "./rules.ts";

/**
 * Labels that operators give a machine. Plans choose machines by these and not by what a machine says of itself, or one
 * that was broken into could call itself whatever brings it other people's sites.
 */
const label = endpoint({
  method: "PATCH",
  path: "/admin/nodes/:id",
  access: "admin",
  summary: "Give a machine labels, or take them away with null. Plans choose machines by these. What runs stays.",
  params: idParams,
  body: labelNodeInput,
  reply: labelNodeReply,
  handle: ({ db, clock }, { caller, params, body, address }) =>
    db.transaction().execute(async (tx) => {
      const node = await setLabels(tx, params.id, body.labels, clock.now());
      const detail = { role: node.role, name: node.name, labels: Object.keys(body.labels).sort() };
      await recordAudit(tx, { caller, address, action: "node.label", target: node.id, detail });
      const { id, name, operator_labels: operatorLabels } = node;
      return { node: { id, name, labels: shownLabels(node), operatorLabels } };
    }),
});

async function setLabels(
  tx: Db,
  id: string,
  change: Readonly<Record<string, string | null>>,
  now: Date,
): Promise<Node> {
  const before = await tx.selectFrom("node").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
  if (before === undefined) throw new ApiError("NOT_FOUND");
  const changed = changedLabels(before.operator_labels, change);
  if ("problem" in changed) throw new ApiError("VALIDATION", { message: changed.problem });
  const { labels } = changed;
  const detail = labelChangeText(before.operator_labels, labels);
  if (detail === null) return before;
  await tx
    .updateTable("node")
    .set({ operator_labels: JSON.stringify(labels) })
    .where("id", "=", id)
    .execute();
  await insertNodeEvents(tx, [{ nodeId: id, kind: "labeled", detail, at: now }]);
  // What waits for such a machine need not wait for the scheduler's next round.
  await notify(tx, taskTopic);
  return { ...before, operator_labels: labels };
}

export const nodeLabelEndpoints = [label];
