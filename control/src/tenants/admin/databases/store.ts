import { type Selectable, sql } from "kysely";
import type { PlanTable, ProjectTable } from "../../../stores/db/gen/tables.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change } from "../../../stores/db/tables.ts";
import type { Durability } from "../../databases/copies/durability.ts";
import { isOverLimit } from "../../databases/limits.ts";

export interface ListedBranch
  extends Pick<
      Branch,
      "id" | "project_id" | "channel" | "engine" | "status" | "size_bytes" | "connections" | "node_id" | "generation"
    >,
    Pick<Selectable<ProjectTable>, "slug" | "owner_id">,
    Pick<Selectable<PlanTable>, "db_size_mb" | "db_connection_limit"> {
  owner_email: string;
  /** How old its measures are; null: it was never measured. */
  measured_ago_ms: number | null;
  /** Of copies on other machines that are there, the most. */
  covered_at: Date | null;
  changing: Change["kind"] | null;
}

/** Older numbers are not of now. */
const measuredMs = 120_000;

/** The branches of all projects that are not being deleted, by project and channel, with what their owners' plans allow. */
export async function listAllBranches(db: Db): Promise<ListedBranch[]> {
  const { rows } = await sql<ListedBranch>`
    select database.id, database.project_id, database.channel, database.engine, database.status, database.size_bytes,
      database.connections, database.node_id, database.generation, project.slug, project.owner_id, plan.db_size_mb, plan.db_connection_limit,
      u.email as owner_email,
      (extract(epoch from now() - database.measured_at) * 1000)::float8 as measured_ago_ms,
      (select max(copy.covered_at) from database_copy copy join node on node.id = copy.node_id
        where copy.database_id = database.id and copy.generation = database.generation and copy.gone_at is null
          and node.lifecycle = 'active' and copy.node_id is distinct from database.node_id) as covered_at,
      (select kind from database_change
        where database_id = database.id and ended_at is null) as changing
    from database join project on project.id = database.project_id
      join auth."user" u on u.id = project.owner_id
      left join account on account.user_id = project.owner_id
      join plan on plan.id = coalesce(account.plan_id, (select id from plan where is_default))
    where project.deleting_at is null
    order by project.slug, array_position(array['production', 'preview', 'dev'], database.channel)`.execute(db);
  return rows;
}

export function adminDatabaseView(row: ListedBranch, durability: Durability) {
  const isFresh = row.measured_ago_ms !== null && row.measured_ago_ms < measuredMs;
  return {
    ...{ id: row.id, projectId: row.project_id, projectSlug: row.slug, channel: row.channel, engine: row.engine },
    ...{ status: row.status, ownerId: row.owner_id, ownerEmail: row.owner_email },
    sizeBytes: row.size_bytes,
    connections: isFresh ? row.connections : null,
    ...{ dbSizeMb: row.db_size_mb, dbConnectionLimit: row.db_connection_limit },
    ...{ nodeId: row.node_id, generation: row.generation, changing: row.changing },
    coveredAt: row.covered_at?.toISOString() ?? null,
    overLimit: row.size_bytes !== null && isOverLimit(row.size_bytes, row),
    ...durability,
  };
}
