import { limits } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import type { Log } from "../log.ts";
import { listProjectsWithArtifacts, readArtifactFacts } from "./facts.ts";
import {
  type ArtifactBounds,
  type ArtifactDecision,
  type Content,
  judgeArtifacts,
  type StoredArtifact,
} from "./rules.ts";

export interface CollectorDeps {
  db: Db;
  registry: Pick<Registry, "getManifest" | "deleteManifest">;
  log: Log;
  now: () => Date;
  bounds?: Partial<ArtifactBounds>;
}

/** What one round looked at and did. */
export interface CollectorReport {
  projects: number;
  removed: number;
  /** Pushes that nobody had reported, found in the registry or given up. */
  lookedUp: number;
}

const boundsUsed: ArtifactBounds = {
  graceMs: limits.artifactGraceSeconds * 1000,
  pushMs: limits.artifactGraceSeconds * 1000,
  rollbackTargets: limits.rollbackTargetsKept,
};

const projectsPerRound = 500;
/** A project is locked while its manifests are deleted, a few milliseconds each: bounded, the rest comes next time. */
const removalsPerProject = 50;
const lookUpsPerProject = 50;
const failuresPerRound = 3;
const firstProject = "00000000-0000-0000-0000-000000000000";

/** Deletes in the registry what no deployment needs any more, some projects per round. */
export interface Collector {
  /** The next part of a way through all projects that never ends; where it stands is lost with the process, and no harm. */
  round(signal: AbortSignal): Promise<CollectorReport>;
  /** A part of what can be deleted of one project now. True once there is no more of it; what is being pushed may be left. */
  collectProject(projectId: string): Promise<boolean>;
}

export function createCollector(deps: CollectorDeps): Collector {
  const { db, registry, log, now } = deps;
  const bounds = { ...boundsUsed, ...deps.bounds };
  let position = firstProject;

  const judge = async (from: Db, projectIds: readonly string[]): Promise<Map<string, ArtifactDecision>> => {
    const facts = await readArtifactFacts(from, projectIds, { now: now(), rollbackTargets: bounds.rollbackTargets });
    return new Map([...facts].map(([id, each]) => [id, judgeArtifacts(each, bounds)]));
  };

  /** Finds by its tag what a push came to of which nobody told. Nothing there: it never came to its end. */
  async function lookUp({ id, repository }: StoredArtifact): Promise<void> {
    const found = await findManifest(registry, repository, id);
    const unknown = (from: Db) =>
      from.selectFrom("artifact").select("id").where("id", "=", id).where("digest", "is", null);
    if (found === null) {
      await db.deleteFrom("artifact").where("id", "in", unknown(db)).execute();
      return;
    }
    await db
      .updateTable("artifact")
      .set({
        digest: found.digest,
        size_bytes: found.contentBytes,
        // Not new: nobody will come for it.
        ended_at: sql<Date>`coalesce(ended_at, created_at)`,
      })
      .where("id", "in", unknown(db))
      .execute();
  }

  /**
   * Decides again under the project's lock, which whoever begins a push or creates a deployment has to take as
   * well, and deletes before it lets go: so nothing is deleted that has just been referred to or pushed again.
   * A round that breaks off in here leaves rows whose manifest is gone; the next one finds the same to do.
   */
  function removeUnreferenced(projectId: string): Promise<{ removed: number; left: number }> {
    return db.transaction().execute(async (tx) => {
      await tx.selectFrom("project").select("id").where("id", "=", projectId).forUpdate().execute();
      const { remove = [] } = (await judge(tx, [projectId])).get(projectId) ?? {};
      const batch = remove.slice(0, removalsPerProject);
      for (const content of batch) {
        await registry.deleteManifest(content.repository, content.digest);
        await forget(tx, projectId, content);
      }
      return { removed: batch.length, left: remove.length - batch.length };
    });
  }

  async function collect(projectId: string, { lookUp: unknown }: ArtifactDecision) {
    for (const artifact of unknown.slice(0, lookUpsPerProject)) await lookUp(artifact);
    const { removed, left } = await removeUnreferenced(projectId);
    if (removed > 0) log.info({ projectId, removed }, "artifacts removed from the registry");
    return { removed, left, lookedUp: Math.min(unknown.length, lookUpsPerProject) };
  }

  return {
    async round(signal) {
      const projectIds = await listProjectsWithArtifacts(db, position, projectsPerRound);
      position = projectIds.length < projectsPerRound ? firstProject : (projectIds.at(-1) ?? firstProject);
      const report: CollectorReport = { projects: projectIds.length, removed: 0, lookedUp: 0 };
      const failures: unknown[] = [];
      for (const [projectId, decision] of await judge(db, projectIds)) {
        if (signal.aborted) break;
        if (decision.remove.length === 0 && decision.lookUp.length === 0) continue;
        try {
          const { removed, lookedUp } = await collect(projectId, decision);
          report.removed += removed;
          report.lookedUp += lookedUp;
        } catch (error) {
          // One project must not keep the others from their turn; a registry that is away is left alone.
          failures.push(error);
          if (failures.length >= failuresPerRound) break;
        }
      }
      if (failures.length > 0) throw failures[0];
      return report;
    },
    async collectProject(projectId) {
      const look = async () => (await judge(db, [projectId])).get(projectId) ?? { remove: [], lookUp: [] };
      await collect(projectId, await look());
      const left = await look();
      return left.remove.length === 0 && left.lookUp.length === 0;
    },
  };
}

/** The registry's word under a tag or a digest; null when there is nothing. */
async function findManifest(registry: CollectorDeps["registry"], repository: string, reference: string) {
  try {
    return await registry.getManifest(repository, reference);
  } catch (error) {
    if (error instanceof RegistryError && error.code === "ARTIFACT_NOT_FOUND") return null;
    throw error;
  }
}

/** Deployments stay as history, and say that one cannot go back to them. */
async function forget(tx: Db, projectId: string, { repository, digest }: Content): Promise<void> {
  await tx
    .deleteFrom("artifact")
    .where("project_id", "=", projectId)
    .where("repository", "=", repository)
    .where("digest", "=", digest)
    .execute();
  await tx
    .updateTable("deployment")
    .set({ artifact_removed_at: sql<Date>`now()` })
    .where("project_id", "=", projectId)
    .where("artifact_repository", "=", repository)
    .where("artifact_digest", "=", digest)
    .where("artifact_removed_at", "is", null)
    .execute();
}
