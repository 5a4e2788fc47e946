import type { Channel, DatabaseEngine, DatabaseStatus } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { ReachableBranch, Uses } from "./table.ts";

/** A node, and what runs on it. */
export interface NodeUses extends Uses {
  nodeId: string;
}

interface Row {
  at_node: string;
  id: string;
  project_id: string;
  channel: Channel;
  engine: DatabaseEngine;
  status: DatabaseStatus;
  is_off: boolean;
  node_id: string | null;
  connection_limit: number;
  read_only: boolean;
  is_held: boolean;
  copies: { copyId: string; nodeId: string }[];
  epoch: number | null;
  server_read_only: boolean;
  server_node_id: string | null;
  address: string | null;
}

/**
 * The branches that each of the nodes is to know: those of what runs there, and those whose data or a copy of it the node has. One
 * query for all of them, however many there are.
 */
export async function loadBranchesOfNodes(
  db: Db,
  nodes: readonly NodeUses[],
): Promise<ReadonlyMap<string, ReachableBranch[]>> {
  const channels = nodes.flatMap(({ nodeId, channels }) => channels.map((each) => ({ nodeId, ...each })));
  const commands = nodes.flatMap(({ nodeId, ownerIds }) => ownerIds.map((id) => ({ nodeId, id })));
  const { rows } = await sql<Row>`
    with used (at_node, project_id, channel) as (
      select * from unnest(
        ${channels.map(({ nodeId }) => nodeId)}::uuid[],
        ${channels.map(({ projectId }) => projectId)}::uuid[],
        ${channels.map(({ channel }) => channel)}::text[])
      union
      select command.at_node, deployment.project_id, deployment.channel
      from (
        select command.at_node, coalesce(job_run.deployment_id, command.id) as id
        from unnest(
          ${commands.map(({ nodeId }) => nodeId)}::uuid[],
          ${commands.map(({ id }) => id)}::uuid[]) as command (at_node, id)
        left join job_run on job_run.id = command.id) command
      join deployment on deployment.id = command.id),
    known (at_node, id) as (
      select used.at_node, database.id from used
      join database on database.project_id = used.project_id and database.channel = used.channel
      union
      select node_id, id from database where node_id = any(${nodes.map(({ nodeId }) => nodeId)}::uuid[])
      union
      select node_id, database_id from database_copy
      where state <> 'ended' and node_id = any(${nodes.map(({ nodeId }) => nodeId)}::uuid[]))
    select known.at_node, database.id, database.project_id, database.channel, database.engine, database.status,
      database.node_id, plan.db_connection_limit as connection_limit, database.read_only, server.epoch,
      exists (
        select from database_change
        where database_id = database.id and ended_at is null and state in ('freezing', 'draining', 'stopping', 'restoring')
      ) as is_held,
      coalesce((
        select json_agg(json_build_object('copyId', id, 'nodeId', node_id) order by id) from database_copy
        where database_id = database.id and state <> 'ended' and node_id is not null), '[]') as copies,
      coalesce((server.spec ->> 'readOnly')::boolean, false) as server_read_only,
      case when server.desired = 'running' and server.reaped_at is null then server.node_id end as server_node_id,
      node.address,
      project.deleting_at is not null
        or (project.suspended_at is not null and project.resuming_at is null) as is_off
    from known
    join database on database.id = known.id
    join project on project.id = database.project_id
    left join account on account.user_id = project.owner_id
    join plan on plan.id = coalesce(account.plan_id, (select id from plan where is_default))
    left join lateral (
      select epoch, spec, desired, reaped_at, node_id from task
      where owner_id = database.id and kind = 'database' order by epoch desc limit 1) server on true
    left join node on node.id = server.node_id`.execute(db);
  const found = Map.groupBy(rows, ({ at_node }) => at_node);
  return new Map([...found].map(([nodeId, own]) => [nodeId, own.map(branchOf)]));
}

const branchOf = (row: Row): ReachableBranch => ({
  ...{ id: row.id, projectId: row.project_id, channel: row.channel, engine: row.engine, status: row.status },
  ...{ isOff: row.is_off, nodeId: row.node_id, connectionLimit: row.connection_limit },
  ...{ readOnly: row.read_only, isHeld: row.is_held, copies: row.copies },
  server:
    row.epoch === null
      ? null
      : {
          epoch: row.epoch,
          readOnly: row.server_read_only,
          // A node that never said where it is has never run anything.
          at:
            row.server_node_id === null || row.address === null
              ? null
              : { nodeId: row.server_node_id, address: row.address },
        },
});
