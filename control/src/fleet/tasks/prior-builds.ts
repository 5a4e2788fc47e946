import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** A build that another of the same source may turn out to equal. */
export interface PriorBuild {
  deploymentId: string;
  key: string;
  repository: string;
  digest: string;
  sizeBytes: number;
  os: string | null;
  architecture: string | null;
}

/** So many of one source: more than there are sets of variables and base images that people go back to. */
const listed = 5;

/**
 * By deployment, of those that have one of these build tasks: builds of the same source in the same project whose
 * results are kept, the newest first. None for a deployment that is to be built in any case.
 *
 * While a build is under way nothing is collected from the repository that it pushes to, so what is listed here stays
 * until the deployment has taken it over.
 */
export async function listPriorBuilds(db: Db, taskIds: readonly string[]): Promise<Map<string, PriorBuild[]>> {
  const { rows } = await sql<PriorBuild & { of: string }>`
    select mine.id as "of", prior.*
    from deployment mine
    cross join lateral (
      select id as "deploymentId", build_key as key, artifact_repository as repository, artifact_digest as digest,
        coalesce(artifact_size, 0) as "sizeBytes", artifact_os as os, artifact_architecture as architecture
      from deployment
      where project_id = mine.project_id and source_digest = mine.source_digest and build_key is not null
        and artifact_digest is not null and artifact_removed_at is null and image_registry is null
      order by number desc limit ${listed}) as prior
    where not mine.force_build and mine.id in (
      select owner_id from task where kind = 'build' and id = any(${[...taskIds]}::uuid[]))`.execute(db);
  const found = new Map<string, PriorBuild[]>();
  for (const { of, ...prior } of rows) found.set(of, [...(found.get(of) ?? []), prior]);
  return found;
}
