import type { NodeUses } from "../../../../fleet/database-tables/facts.ts";
import type { ReachableBranch } from "../../../../fleet/database-tables/table.ts";
import { graceMinutes } from "../../../../fleet/database-volumes/facts.ts";
import type { KnownVolume } from "../../../../fleet/database-volumes/rules.ts";
import type { Branch } from "../../../../stores/db/tables.ts";
import type { DatabaseTables, Tx } from "./tables.ts";

/** How nodes are told where another one is. */
type PlaceOf = (nodeId: string) => { nodeId: string; address: string };

/** As `loadBranchesOfNodes` of `fleet/database-tables/facts.ts`, for one node. Commands are deployments'. */
export function branchesOfNode(
  { tables }: Pick<Tx, "tables">,
  { nodeId, channels, ownerIds }: NodeUses,
  placeOf: PlaceOf,
): ReachableBranch[] {
  const { branches, deployments } = tables;
  const used = new Set(channels.map(({ projectId, channel }) => `${projectId} ${channel}`));
  for (const id of ownerIds) {
    const deployment = deployments.get(id);
    if (deployment !== undefined) used.add(`${deployment.projectId} production`);
  }
  return [...branches.rows.values()]
    .filter(
      (row) =>
        row.node_id === nodeId ||
        used.has(`${row.project_id} ${row.channel}`) ||
        branches.copiesOf(row.id).some((copy) => copy.node_id === nodeId),
    )
    .map((row) => reachable(tables, row, placeOf));
}

function reachable({ branches }: DatabaseTables, row: Branch, placeOf: PlaceOf): ReachableBranch {
  const server = branches.serversOf(row.id).at(-1);
  const at = server?.desired === "running" && server.reapedAt === null ? server.nodeId : null;
  return {
    ...{ id: row.id, projectId: row.project_id, channel: row.channel, engine: row.engine, status: row.status },
    isOff: branches.deleting.has(row.project_id) || branches.suspended.has(row.project_id),
    ...{ nodeId: row.node_id, connectionLimit: branches.plan.db_connection_limit, readOnly: row.read_only },
    isHeld: branches.isHeld(row.id),
    copies: branches
      .copiesOf(row.id)
      .flatMap(({ id: copyId, node_id }) => (node_id === null ? [] : [{ copyId, nodeId: placeOf(node_id).nodeId }]))
      .sort((a, b) => (a.copyId < b.copyId ? -1 : 1)),
    server:
      server === undefined
        ? null
        : {
            ...{ epoch: server.epoch, readOnly: server.server?.readOnly ?? false },
            at: at === null ? null : placeOf(at),
          },
  };
}

/** As `loadVolumesOfNodes` of `fleet/database-volumes/facts.ts`, for one node. */
export function volumesOfNode({ tables, now }: Pick<Tx, "tables" | "now">, nodeId: string): KnownVolume[] {
  const { branches, open } = tables;
  const isDue = (purgeAt: Date | null): boolean =>
    purgeAt !== null && purgeAt.getTime() < now.getTime() - graceMinutes * 60_000;
  const own = [...branches.volumes.values()].filter((volume) => volume.nodeId === nodeId);
  const copies = [...branches.copies.values()].filter((copy) => copy.node_id === nodeId);
  return [
    ...own.map(({ databaseId: id, generation, state, purgeAt, goneAt }) => ({
      ...{ of: "database" as const, id, generation, isOver: state !== "current", isGone: goneAt !== null },
      isDue: isDue(purgeAt),
      isCurrent: branches.rows.get(id)?.generation === generation,
      isChanging: branches.openChange(id) !== null,
      isUsed: [...open.values()].some(({ ownerId, server }) => ownerId === id && server?.generation === generation),
    })),
    ...copies.map(({ id, database_id, state, purge_at, gone_at }) => ({
      ...{ of: "copy" as const, id, generation: 1, isOver: state === "ended", isGone: gone_at !== null },
      isDue: isDue(purge_at),
      isCurrent: false,
      isChanging: branches.openChange(database_id)?.copy_id === id,
      isUsed: [...open.values()].some(({ ownerId, server }) => ownerId === id || server?.restore?.copyId === id),
    })),
  ];
}
