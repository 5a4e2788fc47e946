import { nodeListReply, plural } from "@svc/proto";
import { branchName, listDatabases } from "../../../admin-databases/branches.ts";
import { command } from "../../../command.ts";
import { formatAge, formatBytes } from "../../../format.ts";
import { listing } from "../../../listing.ts";
import { paintStatus } from "../../../paint.ts";

export const adminDbList = command({
  name: "admin db list",
  summary: "List everybody's databases, where they are, and how far copies of them go",
  examples: ["svc admin db list"],
  async run(context) {
    const api = await context.api();
    const [databases, { nodes }] = await Promise.all([listDatabases(api), api.get("/admin/nodes", nodeListReply)]);
    const nameOf = (id: string | null) => nodes.find((node) => node.id === id)?.name ?? null;
    return { databases: databases.map((each) => ({ ...each, nodeName: nameOf(each.nodeId) })) };
  },
  render: ({ databases }, screen) => {
    const { paint, now } = screen;
    const rows = databases.map((each) => [
      branchName(each),
      each.engine,
      each.changing === null ? paintStatus(paint, each.status) : paint("yellow", `under ${each.changing}`),
      each.nodeName ?? "-",
      each.sizeBytes === null ? "-" : formatBytes(each.sizeBytes),
      each.coveredAt === null ? paint("dim", "none elsewhere") : formatAge(each.coveredAt, now),
    ]);
    const titles = ["DATABASE", "ENGINE", "STATUS", "MACHINE", "SIZE", "COPY COVERS"];
    return `${listing(titles, rows, screen, { alignRight: [4] })}\n\n${paint("dim", plural(databases.length, "database"))}`;
  },
});
