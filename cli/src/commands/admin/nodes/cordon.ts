import { command } from "../../../command.ts";
import { actOnNode, nodeArguments, reasonFlag, renderActed } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

export const adminNodesCordon = command({
  name: "admin nodes cordon",
  summary: "Keep new work off a machine; what runs there stays",
  details:
    "An edge that is cordoned is out of rotation: no deployment waits for it any more. Take it out of your DNS first.",
  flags: { reason: reasonFlag },
  arguments: nodeArguments,
  examples: ["svc admin nodes cordon node-1", "svc admin nodes cordon node-1 --reason 'noisy disk'"],
  async run(context, { node: named, reason }) {
    const api = await context.api();
    const node = await findNode(api, named);
    return actOnNode(context, api, node, "cordon", { ...(reason !== undefined && { reason }) });
  },
  render: renderActed("takes no new work"),
});
