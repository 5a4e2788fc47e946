import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { ArtifactTable } from "../../stores/db/tables.ts";

export interface Push {
  /** Also the tag to push under. Of one attempt: what another one does to its own says nothing about this. */
  id: string;
  projectId: string;
  repository: string;
  kind: ArtifactTable["kind"];
}

/**
 * Announces that something is about to be pushed to the cluster's registry. Every push has a row before it happens
 * and the row's id as its tag, so whatever is in the registry can be found, also when whoever pushed it died.
 * Until the push has ended nothing is deleted from its repository. May be repeated. False: the project is gone.
 *
 * The lock on the project orders this with a collection that is under way: that one has deleted before this returns.
 */
export async function beginPush(db: Db, { id, projectId, repository, kind }: Push): Promise<boolean> {
  const { numAffectedRows } = await sql`
    insert into artifact (id, project_id, repository, kind)
    select ${id}::uuid, id, ${repository}, ${kind} from project where id = ${projectId} for key share
    on conflict (id) do update set digest = null, ended_at = null, created_at = now()`.execute(db);
  return numAffectedRows === 1n;
}

/**
 * Records what a push came to; what is in the registry has a row after this, whoever took that of the push for dead.
 * Null when it failed or was broken off: the manifest may be there all the same, and is looked up by its tag.
 */
export async function endPush(
  db: Db,
  { id, projectId, repository, kind }: Push,
  pushed: { digest: string; sizeBytes: number } | null,
): Promise<void> {
  const ended_at = sql<Date>`now()`;
  if (pushed === null) {
    // What is known of it already stays.
    await db.updateTable("artifact").set({ ended_at }).where("id", "=", id).where("digest", "is", null).execute();
    return;
  }
  const known = { digest: pushed.digest, size_bytes: pushed.sizeBytes, ended_at };
  await db
    .insertInto("artifact")
    .values({ id, project_id: projectId, repository, kind, ...known })
    .onConflict((conflict) => conflict.column("id").doUpdateSet(known))
    .execute();
}

/**
 * Records what the deployments of a project name and nobody announced: accepted by a control of before there was
 * this table, while one of now was running already.
 */
export async function recordUnannounced(db: Db, projectId: string): Promise<void> {
  await sql`
    insert into artifact (id, project_id, repository, kind, digest, ended_at)
    select gen_random_uuid(), ${projectId}::uuid, repository, kind, digest, now()
    from (
      select source_repository as repository, 'source' as kind, source_digest as digest
      from deployment where project_id = ${projectId}
      union
      select artifact_repository, artifact_kind, artifact_digest
      from deployment where project_id = ${projectId} and artifact_removed_at is null and image_registry is null
    ) named
    where digest is not null and starts_with(repository, ${`svc/${projectId}/`}) and not exists (
      select from artifact
      where project_id = ${projectId} and artifact.repository = named.repository and artifact.digest = named.digest)`.execute(
    db,
  );
}

/** Bytes that a project has in the registry, as they are transferred; content that was pushed twice counts once. */
export async function storedBytes(db: Db, projectId: string): Promise<Record<ArtifactTable["kind"], number>> {
  const { rows } = await sql<{ kind: ArtifactTable["kind"]; bytes: number }>`
    select kind, sum(size_bytes)::bigint as bytes
    from (
      select kind, max(size_bytes) as size_bytes from artifact
      where project_id = ${projectId} and digest is not null group by kind, repository, digest
    ) content
    group by kind`.execute(db);
  const bytes = new Map(rows.map((row) => [row.kind, row.bytes]));
  const of = (kind: ArtifactTable["kind"]) => bytes.get(kind) ?? 0;
  return {
    source: of("source"),
    image: of("image"),
    bundle: of("bundle"),
    backup: of("backup"),
    screenshot: of("screenshot"),
  };
}
