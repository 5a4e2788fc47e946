import { limits } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Plan } from "../../stores/db/tables.ts";
import { readArtifactFacts } from "./facts.ts";
import { type Content, contentKey, keptContents } from "./rules.ts";

/** Something that a deployment is about to keep. */
export interface AddedContent extends Content {
  sizeBytes: number;
}

const mebibyte = 1024 * 1024;

/**
 * Why the plan has no room for what a project keeps in the registry, `added` included; null when it has. Counted is
 * what its deployments run, wait for or can be rolled back to, equal content once; what waits to be collected is not.
 * Exact while the project is locked, apart from what builds that are under way will bring.
 */
export async function storageProblem(
  { clock, db }: { clock: Clock; db: Db },
  projectId: string,
  { storage_mb: allowedMb }: Pick<Plan, "storage_mb">,
  added: AddedContent | null,
): Promise<string | null> {
  const bytes = await keptBytes(db, projectId, added, clock.now());
  if (bytes <= allowedMb * mebibyte) return null;
  const withAdded = added === null ? "" : " with this deployment";
  return `The project would keep ${Math.ceil(bytes / mebibyte)} MiB of artifacts${withAdded}, and the plan allows ${allowedMb} MiB. Remove previews and earlier deployments, or move to a larger plan.`;
}

async function keptBytes(db: Db, projectId: string, added: AddedContent | null, now: Date): Promise<number> {
  const rollbackTargets = limits.rollbackTargetsKept;
  const known = await readArtifactFacts(db, [projectId], { now, rollbackTargets });
  const kept = new Set(keptContents(known.get(projectId)?.deployments ?? [], { rollbackTargets }).map(contentKey));
  const { rows } = await sql<AddedContent>`
    select repository, digest, max(size_bytes) as "sizeBytes" from artifact
    where project_id = ${projectId} and digest is not null and size_bytes is not null
    group by repository, digest`.execute(db);
  const sizes = new Map(rows.map((row) => [contentKey(row), row.sizeBytes]));
  if (added !== null) {
    kept.add(contentKey(added));
    sizes.set(contentKey(added), added.sizeBytes);
  }
  return [...kept].reduce((sum, key) => sum + (sizes.get(key) ?? 0), 0);
}
