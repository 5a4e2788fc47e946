import { type NodeListItem, nodeListReply } from "@svc/proto";
import { command, flag } from "../../../command.ts";
import { listing } from "../../../listing.ts";
import { seenText } from "../../../nodes.ts";
import { paintStatus } from "../../../paint.ts";

/** Ids are long and names are enough: they are shown where there is room, and where a program may read along. */
const columnsForIds = 120;

export const adminNodesList = command({
  name: "admin nodes list",
  summary: "List the machines of the fleet",
  flags: { all: flag.toggle("--all", "Also those that were removed") },
  examples: ["svc admin nodes list", "svc admin nodes list --all"],
  run: async (context, { all }) => {
    const { nodes } = await (await context.api()).get("/admin/nodes", nodeListReply);
    return { nodes: all ? nodes : nodes.filter(({ status }) => status !== "removed") };
  },
  render: ({ nodes }, screen) => {
    const { paint, now, columns } = screen;
    if (nodes.length === 0)
      return "No machine has joined yet. Make a token with `svc admin nodes bootstrap-token create --file <path>`";
    const withIds = columns === null || columns >= columnsForIds;
    const header = ["NAME", "ROLE", "STATUS", "SEEN", "RUNS", "MEMORY", "CPU", "VERSION", ...(withIds ? ["ID"] : [])];
    const rows = nodes.map((node) => [
      node.name,
      node.role,
      [paintStatus(paint, node.status), edgeNote(node)].filter((text) => text !== "").join(" "),
      seenText(node, now),
      String(node.runningPlacements),
      share(node.allocated?.memoryMb, node.capacity?.memoryMb, "MiB"),
      share(node.allocated?.cpuMillicores, node.capacity?.cpuMillicores, "m"),
      node.version ?? "-",
      ...(withIds ? [node.id] : []),
    ]);
    return listing(header, rows, screen, { alignRight: [4, 5, 6] });
  },
});

/** What the status of an edge leaves unsaid; empty: nothing. */
function edgeNote({ status, edge }: NodeListItem): string {
  if (edge == null) return "";
  if (status === "draining" && edge.phase !== null) return `(${edge.phase})`;
  if (status !== "ready") return "";
  if (!edge.inRotation) return "(not in rotation yet)";
  return edge.unready === null ? "" : "(health is bad)";
}

/** `used/whole unit`, or "-" where the machine takes no work. */
const share = (used: number | undefined, whole: number | undefined, unit: string): string =>
  whole === undefined ? "-" : `${used ?? 0}/${whole} ${unit}`;
