import { type AdminDatabase, type NodeListItem, nodeListReply, plural } from "@svc/proto";
import { branchName, listDatabases } from "../../../admin-databases/branches.ts";
import type { Api } from "../../../api.ts";
import { command } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";
import { CliError } from "../../../errors.ts";
import { actOnNode, nodeArguments, reasonFlag, renderActed } from "../../../node-action.ts";
import { pickNode } from "../../../nodes.ts";

const lossOfAny = (name: string) =>
  `This declares ${name} lost for ever: make sure that it is off or cut from the network.`;

/** Of the databases that are lost with it; `svc admin db list` has them all. */
const databasesTold = 20;
const outOfRotation = ["fenced", "removed", "cordoned", "draining", "drained"];

/** What it means for a machine of that role, and for visitors when no other edge is left. */
function lossOf({ id, name, role }: NodeListItem, nodes: readonly NodeListItem[]): string {
  if (role === "node")
    return `This declares ${name} lost for ever: what it ran is started elsewhere, and would run twice if the machine still does. Make sure that it is off or cut from the network.`;
  const isLast = !nodes.some((each) => each.role === "edge" && each.id !== id && !outOfRotation.includes(each.status));
  return [
    `This declares the edge ${name} lost for ever: no deployment waits for it any more, and if it still runs, it sends visitors to where sites were. Make sure that it is off or cut from the network, and take it out of your DNS.`,
    ...(isLast
      ? ["It is the last edge in rotation: visitors reach nothing until another one joins or is uncordoned."]
      : []),
  ].join(" ");
}

/** Databases whose data it has, and how far copies on other machines go. */
function databasesLost(nodeId: string, databases: readonly AdminDatabase[] | null): string[] {
  if (databases === null) return ["Which databases go with it cannot be told now."];
  const own = databases.filter((each) => each.nodeId === nodeId);
  if (own.length === 0) return [];
  const told = own
    .slice(0, databasesTold)
    .map((each) =>
      each.coveredAt === null
        ? `${branchName(each)} (no copy elsewhere: all of it)`
        : `${branchName(each)} (a copy has all until ${each.coveredAt})`,
    );
  const more = own.length - told.length;
  return [
    `With it goes the data of ${plural(own.length, "database")}: ${told.join(", ")}${more > 0 ? ` and ${more} more` : ""}. Those with a copy come back with \`svc admin db restore <project>/<channel>\`.`,
  ];
}

/** Null: it is not to be had, such as from a control of before. A machine that is lost is declared so all the same. */
async function tryListDatabases(api: Api): Promise<AdminDatabase[] | null> {
  try {
    return await listDatabases(api);
  } catch (thrown) {
    if (thrown instanceof CliError) return null;
    throw thrown;
  }
}

export const adminNodesForceFence = command({
  name: "admin nodes force-fence",
  summary: "Declare an unreachable machine lost, for ever",
  details: "Its identity is refused from then on. The machine may join again as a new one, with a new token.",
  flags: { reason: reasonFlag },
  arguments: nodeArguments,
  examples: ["svc admin nodes force-fence node-1 --reason 'power supply is dead' --yes"],
  async run(context, { node: named, reason }) {
    if (reason === undefined)
      throw new CliError("CLI_INVALID_USAGE", "--reason <text> is missing", {
        hint: `Say how you know that it is off: \`svc admin nodes force-fence ${named} --reason 'power supply is dead'\``,
      });
    requireAnswerable(context, lossOfAny(named));
    const api = await context.api();
    const { nodes } = await api.get("/admin/nodes", nodeListReply);
    const node = pickNode(nodes, named);
    const databases = node.role === "node" ? await tryListDatabases(api) : [];
    const loss = [lossOf(node, nodes), ...databasesLost(node.id, databases)].join(" ");
    await confirmLoss(context, { loss, name: node.name });
    return actOnNode(context, api, node, "force-fence", { reason, confirm: true });
  },
  render: renderActed("is declared lost"),
});
