import { limits } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { listProjectsWithArtifacts, readArtifactFacts } from "./facts.ts";
import {
  type ArtifactBounds,
  type ArtifactDecision,
  type Content,
  judgeArtifacts,
  type StoredArtifact,
} from "./rules.ts";

export interface CollectorDeps {
  clock: Clock;
  db: Db;
  registry: Pick<Registry, "getManifest" | "deleteManifest">;
  log: Log;
  bounds?: Partial<ArtifactBounds>;
  /** A project is locked while one manifest of it is deleted: for so long at most. 5 s by default. */
  removalMs?: number;
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
const removalsPerProject = 50;
/** It takes milliseconds, or the registry is not well. */
const removalMsUsed = 5_000;
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
  const { clock, db, registry, log, removalMs = removalMsUsed } = deps;
  const bounds = { ...boundsUsed, ...deps.bounds };
  let position = firstProject;

  const judge = async (from: Db, projectIds: readonly string[]): Promise<Map<string, ArtifactDecision>> => {
    const facts = await readArtifactFacts(from, projectIds, {
      now: clock.now(),
      rollbackTargets: bounds.rollbackTargets,
    });
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

  /** Runs `act` on what may go, under the lock that whoever begins a push or creates a deployment has to take, too. */
  const decided = <T>(projectId: string, act: (tx: Db, remove: readonly Content[]) => Promise<T>): Promise<T> =>
    db.transaction().execute(async (tx) => {
      await tx.selectFrom("project").select("id").where("id", "=", projectId).forUpdate().execute();
      return act(tx, (await judge(tx, [projectId])).get(projectId)?.remove ?? []);
    });

  /**
   * First has the deployments say that one cannot go back to them, and then deletes, one manifest per lock: nobody has
   * to wait for long, and a round that breaks off anywhere leaves no deployment that promises what is gone. The rows of
   * what is pushed go last, so that the next round finds the same to do.
   */
  async function removeUnreferenced(projectId: string, signal?: AbortSignal): Promise<number> {
    const batch = await decided(projectId, async (tx, remove) => {
      const some = remove.slice(0, removalsPerProject);
      for (const content of some) await disown(tx, projectId, content);
      return some;
    });
    let removed = 0;
    for (const content of batch) {
      if (signal?.aborted) break;
      if (await removeContent(projectId, content)) removed += 1;
    }
    return removed;
  }

  /** Deletes before it lets go of the lock. False: it was pushed again, or referred to, since it was found. */
  const removeContent = (projectId: string, content: Content): Promise<boolean> =>
    decided(projectId, async (tx, remove) => {
      const { repository, digest } = content;
      if (!remove.some((each) => each.repository === repository && each.digest === digest)) return false;
      await registry.deleteManifest(repository, digest, { signal: clock.abortAfter(removalMs) });
      // Deployments that ended in between.
      await disown(tx, projectId, content);
      await forget(tx, projectId, content);
      return true;
    });

  async function collect(projectId: string, { lookUp: unknown }: ArtifactDecision, signal?: AbortSignal) {
    for (const artifact of unknown.slice(0, lookUpsPerProject)) await lookUp(artifact);
    const removed = await removeUnreferenced(projectId, signal);
    if (removed > 0) log.info({ projectId, removed }, "artifacts removed from the registry");
    return { removed, lookedUp: Math.min(unknown.length, lookUpsPerProject) };
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
          const { removed, lookedUp } = await collect(projectId, decision, signal);
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

const forget = (tx: Db, projectId: string, { repository, digest }: Content) =>
  tx
    .deleteFrom("artifact")
    .where("project_id", "=", projectId)
    .where("repository", "=", repository)
    .where("digest", "=", digest)
    .execute();

/** Deployments stay as history, and say that one cannot go back to them. */
async function disown(tx: Db, projectId: string, { repository, digest }: Content): Promise<void> {
  await tx
    .updateTable("deployment")
    .set({ artifact_removed_at: sql<Date>`now()` })
    .where("project_id", "=", projectId)
    .where("artifact_repository", "=", repository)
    .where("artifact_digest", "=", digest)
    .where("artifact_removed_at", "is", null)
    .execute();
}
