import { command } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";
import { actOnNode, nodeArguments, renderActed } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

const lossOf = (name: string) =>
  `This takes ${name} out of the fleet for ever; the machine can only join as a new one.`;

export const adminNodesRemove = command({
  name: "admin nodes remove",
  summary: "Take a drained or fenced machine out of the fleet",
  arguments: nodeArguments,
  examples: ["svc admin nodes remove node-1 --yes"],
  async run(context, { node: named }) {
    requireAnswerable(context, lossOf(named));
    const api = await context.api();
    const node = await findNode(api, named);
    await confirmLoss(context, { loss: lossOf(node.name), name: node.name });
    return actOnNode(context, api, node, "remove", { confirm: true });
  },
  render: renderActed("is out of the fleet"),
});
