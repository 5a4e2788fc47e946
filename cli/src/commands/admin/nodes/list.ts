import { nodeListReply } from "@svc/proto";
import { command } from "../../../command.ts";
import { formatAge, table } from "../../../format.ts";
import { paintStatus } from "../../../paint.ts";

export const adminNodesList = command({
  name: "admin nodes list",
  summary: "List the machines of the fleet",
  examples: ["svc admin nodes list"],
  run: async (context) => {
    const { nodes } = await (await context.api()).get("/admin/nodes", nodeListReply);
    return { nodes };
  },
  render: ({ nodes }, { paint, now }) => {
    if (nodes.length === 0)
      return "No machine has joined yet. Make a token with `svc admin nodes bootstrap-token create --file <path>`";
    const header = ["NAME", "ROLE", "STATUS", "SEEN", "PLACEMENTS", "MEMORY", "CPU", "VERSION", "ID"];
    const rows = nodes.map((node) => [
      node.name,
      node.role,
      paintStatus(paint, node.status),
      formatAge(node.lastSeenAt, now),
      String(node.runningPlacements),
      share(node.allocated?.memoryMb, node.capacity?.memoryMb, "MiB"),
      share(node.allocated?.cpuMillicores, node.capacity?.cpuMillicores, "m"),
      node.version ?? "-",
      node.id,
    ]);
    return table([header.map((cell) => paint("dim", cell)), ...rows], [4, 5, 6]);
  },
});

/** `used/whole unit`, or "-" where the machine takes no work. */
const share = (used: number | undefined, whole: number | undefined, unit: string): string =>
  whole === undefined ? "-" : `${used ?? 0}/${whole} ${unit}`;
