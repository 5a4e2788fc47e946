import type { FleetView } from "../../../fleet/cluster/facts.ts";
import { isHealthy } from "../../../fleet/cluster/keys.ts";
import { specOf } from "../../../fleet/tasks/kinds/index.ts";
import { listTasks } from "../../../fleet/tasks/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { listChanges } from "./store.ts";
import { changeView, copyView, type NodeNames, nodeView } from "./view.ts";

/** Of each of copies, changes, volumes and proofs the newest; enough to see how it came to be as it is. */
const shownMax = 20;

/** Names of all machines: there are few, and what is told may name ones that are gone. */
export async function namesOf(db: Db): Promise<Map<string, string>> {
  const rows = await db.selectFrom("node").select(["id", "name"]).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** All that is known of a branch; null: there is none. */
export async function readDatabase(
  { db, fleet }: { db: Db; fleet: Pick<FleetView, "placements"> },
  id: string,
  names: NodeNames,
) {
  const branch = await db
    .selectFrom("database")
    .innerJoin("project", "project.id", "database.project_id")
    .selectAll("database")
    .select("project.slug")
    .where("database.id", "=", id)
    .executeTakeFirst();
  if (branch === undefined) return null;
  const [tasks, volumes, copies, changes, proofs] = await Promise.all([
    listTasks(db, id),
    db
      .selectFrom("database_volume")
      .selectAll()
      .where("database_id", "=", id)
      .orderBy("generation", "desc")
      .limit(shownMax)
      .execute(),
    db
      .selectFrom("database_copy")
      .selectAll()
      .where("database_id", "=", id)
      .orderBy("created_at", "desc")
      .orderBy("id")
      .limit(shownMax)
      .execute(),
    listChanges(db, id, shownMax),
    db
      .selectFrom("restore_proof")
      .selectAll()
      .where("database_id", "=", id)
      .orderBy("created_at", "desc")
      .orderBy("id")
      .limit(shownMax)
      .execute(),
  ]);
  const server = tasks.findLast(
    ({ kind, desired, reaped_at }) => kind === "database" && desired === "running" && reaped_at === null,
  );
  return {
    ...{ id, projectId: branch.project_id, projectSlug: branch.slug, channel: branch.channel, engine: branch.engine },
    ...{ status: branch.status, reason: branch.reason, node: nodeView(names, branch.node_id) },
    ...{ generation: branch.generation, sizeBytes: branch.size_bytes, volumeBytes: branch.volume_bytes },
    server:
      server === undefined
        ? null
        : {
            ...{ epoch: Number(server.epoch), node: nodeView(names, server.node_id), image: imageOf(server) },
            serving: fleet.placements().some((held) => held.placementId === server.id && isHealthy(held)),
            createdAt: server.created_at.toISOString(),
          },
    volumes: volumes.map((volume) => ({
      ...{ generation: volume.generation, node: nodeView(names, volume.node_id), state: volume.state },
      ...{ purgeAt: volume.purge_at?.toISOString() ?? null, goneAt: volume.gone_at?.toISOString() ?? null },
    })),
    copies: copies.map((copy) => copyView(copy, names)),
    changes: changes.map((change) => changeView(change, names)),
    proofs: proofs.map((proof) => ({
      ...{ id: proof.id, copyId: proof.copy_id, verdict: proof.verdict, problem: proof.problem, tookMs: proof.took_ms },
      ...{ coveredAt: proof.covered_at?.toISOString() ?? null, createdAt: proof.created_at.toISOString() },
      endedAt: proof.ended_at?.toISOString() ?? null,
    })),
  };
}

function imageOf(task: Parameters<typeof specOf>[0]): string {
  const spec = specOf(task);
  return spec.kind === "database" ? spec.image : "";
}
