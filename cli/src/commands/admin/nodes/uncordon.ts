import { command } from "../../../command.ts";
import { actOnNode, nodeArguments, renderActed } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

export const adminNodesUncordon = command({
  name: "admin nodes uncordon",
  summary: "Let a machine take new work again",
  arguments: nodeArguments,
  examples: ["svc admin nodes uncordon node-1"],
  async run(context, { node: named }) {
    const api = await context.api();
    return actOnNode(context, api, await findNode(api, named), "uncordon", {});
  },
  render: renderActed("takes new work again"),
});
