import { nodeListReply, nodeReply } from "@svc/proto";
import { argument, command } from "../../../command.ts";
import { formatAge } from "../../../format.ts";
import { pickNode } from "../../../nodes.ts";
import { paintStatus } from "../../../paint.ts";

export const adminNodesShow = command({
  name: "admin nodes show",
  summary: "Show one machine of the fleet",
  arguments: { node: argument.required("node", "Its id, or its name when no other has it") },
  examples: ["svc admin nodes show node-1"],
  async run(context, { node: named }) {
    const api = await context.api();
    const { nodes } = await api.get("/admin/nodes", nodeListReply);
    const { id } = pickNode(nodes, named);
    const { node } = await api.get(`/admin/nodes/${id}`, nodeReply);
    return { node };
  },
  render: ({ node }, { paint, now }) => {
    const labels = Object.entries(node.labels).map(([name, value]) => `${name}=${value}`);
    const facts: [string, string][] = [
      ["id", node.id],
      ["role", node.role],
      ["seen", formatAge(node.lastSeenAt, now)],
      ["version", node.version ?? "-"],
      ["platform", node.platform === null ? "-" : `${node.platform.os}/${node.platform.architecture}`],
      ["placements", String(node.runningPlacements)],
      ["memory", node.capacity === null ? "-" : `${node.allocated?.memoryMb ?? 0} of ${node.capacity.memoryMb} MiB`],
      [
        "cpu",
        node.capacity === null
          ? "-"
          : `${node.allocated?.cpuMillicores ?? 0} of ${node.capacity.cpuMillicores} millicores`,
      ],
      ["labels", labels.join(", ") || "-"],
      ["certificate", node.certificateExpiresAt === null ? "-" : `until ${node.certificateExpiresAt}`],
      ["joined", formatAge(node.createdAt, now)],
      ["actions", node.actions.join(", ") || "-"],
    ];
    const reason = node.reason === null ? "" : ` ${paint("dim", `(${node.reason})`)}`;
    return [
      `${paint("bold", node.name)} is ${paintStatus(paint, node.status)}${reason}`,
      ...facts.map(([name, value]) => `  ${name.padEnd(12)}${value}`),
    ].join("\n");
  },
});
