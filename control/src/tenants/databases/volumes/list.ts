import type { DatabaseVolumesReply, DatabaseVolumeView } from "@svc/proto";
import { sql } from "kysely";
import { volumeName } from "../../../fleet/database-volumes/rules.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Channel } from "../../../stores/db/tables.ts";

interface Row {
  of: "database" | "copy";
  /** Of the branch or the copy. */
  id: string;
  why: DatabaseVolumeView["why"];
  database_id: string;
  generation: number;
  project_id: string | null;
  slug: string | null;
  channel: Channel | null;
  engine: DatabaseVolumeView["engine"];
  node_id: string | null;
  node_name: string | null;
  is_lost: boolean;
  bytes: number | null;
  kept: boolean;
  purge_at: Date | null;
  created_at: Date;
}

/** Volumes that no server has and that are there as far as anybody knows, by project and channel. */
async function listVolumes(db: Db): Promise<DatabaseVolumeView[]> {
  const { rows } = await sql<Row>`
    select volume.*, project.slug, node.name as node_name, coalesce(node.lifecycle <> 'active', true) as is_lost
    from (
      select 'database' as of, volume.database_id as id, volume.database_id, volume.generation, volume.node_id,
        case volume.state when 'dropped' then 'dropped' when 'salvage' then 'replaced' else 'lost' end as why,
        coalesce(branch.project_id, dropped.project_id) as project_id, coalesce(branch.channel, dropped.channel) as channel,
        coalesce(branch.engine, dropped.engine) as engine,
        coalesce(volume.bytes, branch.volume_bytes) as bytes, volume.kept, volume.purge_at, volume.created_at, volume.gone_at
      from database_volume volume
        left join database branch on branch.id = volume.database_id
        left join dropped_database dropped on dropped.id = volume.database_id
      where volume.state <> 'current'
        or exists (select from node where node.id = branch.node_id and node.lifecycle <> 'active')
      union all
      select 'copy', copy.id, copy.database_id, copy.generation, copy.node_id, 'copy', copy.project_id, copy.channel, copy.engine,
        copy.bytes, copy.kept, copy.purge_at, copy.created_at, copy.gone_at
      from database_copy copy where copy.state = 'ended' and copy.node_id is not null) volume
      left join project on project.id = volume.project_id and project.deleting_at is null
      left join node on node.id = volume.node_id
    where volume.gone_at is null
    order by project.slug nulls last, volume.channel, volume.database_id, volume.generation, volume.why, volume.id`.execute(
    db,
  );
  return rows.map((row) => ({
    // Of a copy, the generation is that of the volume that it followed.
    name: volumeName(row),
    ...{ why: row.why, databaseId: row.database_id, copyId: row.of === "copy" ? row.id : null },
    ...{ projectId: row.project_id, projectSlug: row.slug, channel: row.channel, engine: row.engine },
    ...{ generation: row.generation, nodeLost: row.is_lost, sizeBytes: row.bytes, kept: row.kept },
    node: row.node_id === null ? null : { id: row.node_id, name: row.node_name ?? row.node_id },
    ...{ purgeAt: row.kept ? null : (row.purge_at?.toISOString() ?? null), createdAt: row.created_at.toISOString() },
  }));
}

/** What nodes have and nobody knows. */
async function listUnknown(db: Db): Promise<DatabaseVolumesReply["unknown"]> {
  const rows = await db
    .selectFrom("unknown_volume")
    .innerJoin("node", "node.id", "unknown_volume.node_id")
    .select(["unknown_volume.name", "unknown_volume.since", "node.id", "node.name as node_name"])
    .orderBy("node.name")
    .orderBy("unknown_volume.name")
    .execute();
  return rows.map(({ name, since, id, node_name }) => ({
    ...{ name, node: { id, name: node_name }, since: since.toISOString() },
  }));
}

/** Branches that were dropped, as long as anything of them is known. The newest first. */
async function listDropped(db: Db): Promise<DatabaseVolumesReply["dropped"]> {
  const rows = await db
    .selectFrom("dropped_database as dropped")
    .leftJoin("project", (join) =>
      join.onRef("project.id", "=", "dropped.project_id").on("project.deleting_at", "is", null),
    )
    .select([
      "dropped.id",
      "dropped.project_id",
      "dropped.channel",
      "dropped.engine",
      "dropped.dropped_at",
      "project.slug",
    ])
    .orderBy("dropped.dropped_at", "desc")
    .orderBy("dropped.id")
    .execute();
  return rows.map(({ id, project_id, channel, engine, dropped_at, slug }) => ({
    ...{ id, projectId: project_id, projectSlug: slug, channel, engine, droppedAt: dropped_at.toISOString() },
  }));
}

export const readVolumes = async (db: Db): Promise<Omit<DatabaseVolumesReply, "ok">> => {
  const [volumes, unknown, dropped] = await Promise.all([listVolumes(db), listUnknown(db), listDropped(db)]);
  return { volumes, unknown, dropped };
};
