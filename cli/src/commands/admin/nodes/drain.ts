import { limits } from "@svc/proto";
import { command, flag } from "../../../command.ts";
import { watchDrain } from "../../../drain/watch.ts";
import { CliError } from "../../../errors.ts";
import { actOnNode, type NodeActed, nodeArguments, reasonFlag } from "../../../node-action.ts";
import { findNode } from "../../../nodes.ts";

export const adminNodesDrain = command({
  name: "admin nodes drain",
  summary: "Move everything off a machine, replacement first",
  details:
    "Each container leaves once another one serves in its place and every edge has followed. Builds and commands may go on until the deadline. An edge tells whoever asks for its health to send nobody, and then closes connections. Ctrl-C leaves the drain running. Run again while it drains, it looks on.",
  flags: {
    reason: reasonFlag,
    deadline: flag.integer("--deadline <seconds>", `How long it may take; default: ${limits.drainSecondsDefault}`),
    moveDatabases: flag.toggle("--move-databases", "Also move the databases whose data it has, one at a time"),
    wait: flag.toggle("--no-wait", "Return once the drain is queued"),
  },
  arguments: nodeArguments,
  examples: [
    "svc admin nodes drain node-1",
    "svc admin nodes drain node-1 --reason 'new kernel' --deadline 600",
    "svc admin nodes drain node-1 --move-databases",
    "svc admin nodes drain node-1 --no-wait",
  ],
  async run(context, { node: named, reason, deadline, moveDatabases, wait }) {
    if (deadline !== undefined && (deadline < limits.drainSecondsMin || deadline > limits.drainSecondsMax))
      throw new CliError(
        "CLI_INVALID_USAGE",
        `--deadline is between ${limits.drainSecondsMin} and ${limits.drainSecondsMax} seconds`,
        { hint: "An hour: `--deadline 3600`" },
      );
    const api = await context.api();
    const found = await findNode(api, named);
    const words = {
      ...(reason !== undefined && { reason }),
      ...(deadline !== undefined && { deadlineSeconds: deadline }),
      ...(moveDatabases && { moveDatabases }),
    };
    // Somebody who lost the view of a drain gets it back; other words are another drain, which is refused.
    const drains = found.drain.state === "draining" || found.drain.state === "deadline";
    const isUnderWay = wait && drains && Object.keys(words).length === 0;
    const acted: NodeActed = isUnderWay
      ? { queued: false, action: "drain", node: { id: found.id, name: found.name, status: found.status } }
      : await actOnNode(context, api, found, "drain", words);
    if (!wait) return acted;
    const { id, name, status } = await watchDrain(context, api, found);
    return { ...acted, node: { id, name, status }, drained: true };
  },
  render: ({ node, ...rest }, { paint }) =>
    "drained" in rest
      ? `${paint("green", "✓")} ${node.name} is drained. Remove it with \`svc admin nodes remove ${node.name}\`, or use it again with cancel-drain and uncordon`
      : `${paint("green", "✓")} Queued. See how it goes with \`svc admin nodes show ${node.name}\``,
});
