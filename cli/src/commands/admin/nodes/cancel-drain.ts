import { command } from "../../../command.ts";
import { actOnNode, nodeArguments } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

export const adminNodesCancelDrain = command({
  name: "admin nodes cancel-drain",
  summary: "End a drain; what has moved stays where it is, and the machine stays cordoned",
  arguments: nodeArguments,
  examples: ["svc admin nodes cancel-drain node-1"],
  async run(context, { node: named }) {
    const api = await context.api();
    return actOnNode(context, api, await findNode(api, named), "cancel-drain", {});
  },
  render: ({ node }, { paint }) =>
    `${paint("green", "✓")} ${node.name} is not drained any more. It stays cordoned until \`svc admin nodes uncordon ${node.name}\``,
});
