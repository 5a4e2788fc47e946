import type { Registry } from "@svc/registry";
import { sql } from "kysely";
import type { Fleet } from "../cluster/fleet.ts";
import type { Db } from "../db/pool.ts";
import { edgeProgress } from "../deployments/edges.ts";
import { notify, removeTasks, routeChannel } from "../deployments/store.ts";
import type { Log } from "../log.ts";
import type { WorkHandler } from "../work/worker.ts";

export interface TeardownDeps {
  db: Db;
  fleet: Fleet;
  registry: Registry;
  log: Log;
}

const recheckMs = 500;

/**
 * Work of kind `teardown`: takes a deleted project off the edges, then off the nodes, then out of the
 * registry, and drops its rows last. Each round does what is possible now and comes back for the rest.
 */
export function teardownWorker({ db, fleet, registry, log }: TeardownDeps): WorkHandler {
  return async (item) => {
    const { projectId } = item.payload as { projectId: string };
    const project = await db.selectFrom("project").select("id").where("id", "=", projectId).executeTakeFirst();
    if (project === undefined) return { state: "done" };
    await notify(db, routeChannel);
    const hosts = await db.selectFrom("site_host").select("host").where("project_id", "=", projectId).execute();
    const routed = hosts.some(({ host }) => fleet.route(host) !== null);
    const edges = await edgeProgress(db, fleet, []);
    if (routed || edges.current < edges.inRotation) return { retryAfterMs: recheckMs, free: true };

    const tasks = await db
      .selectFrom("task")
      .select("id")
      .where("project_id", "=", projectId)
      .where("reaped_at", "is", null)
      .execute();
    if (tasks.length > 0) {
      await removeTasks(
        db,
        tasks.map(({ id }) => id),
      );
      return { retryAfterMs: recheckMs, free: true };
    }

    const deployments = await db
      .selectFrom("deployment")
      .select(["id", "source_repository", "source_digest", "artifact_repository", "artifact_digest", "image_registry"])
      .where("project_id", "=", projectId)
      .execute();
    for (const deployment of deployments) {
      await deleteArtifact(registry, deployment.source_repository, deployment.source_digest);
      // A foreign image is not ours to delete.
      const own = deployment.artifact_repository?.startsWith(`svc/${projectId}/`) && deployment.image_registry === null;
      if (own) await deleteArtifact(registry, deployment.artifact_repository, deployment.artifact_digest);
    }
    await db.transaction().execute(async (tx) => {
      const streams = tx.selectFrom("task").select(sql<string>`id::text`.as("id")).where("project_id", "=", projectId);
      await tx.deleteFrom("log_chunk").where("stream_id", "in", streams).execute();
      for (const { id } of deployments)
        await tx.deleteFrom("log_chunk").where("stream_id", "like", `${id}.%`).execute();
      await tx.deleteFrom("resource_sample").where("project_id", "=", projectId).execute();
      await tx.deleteFrom("task").where("project_id", "=", projectId).execute();
      await tx.deleteFrom("channel_state").where("project_id", "=", projectId).execute();
      await tx.deleteFrom("project").where("id", "=", projectId).execute();
    });
    log.info({ projectId, to: "deleted" }, "project");
    return { state: "done" };
  };
}

/** Gone already is as good as deleted; a registry that does not answer fails the round, which is repeated. */
async function deleteArtifact(registry: Registry, repository: string | null, digest: string | null): Promise<void> {
  if (repository !== null && digest !== null) await registry.deleteManifest(repository, digest);
}
