import { storedManifestSchema } from "@svc/proto";
import { sql } from "kysely";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Task } from "../../stores/db/tables.ts";
import type { Fleet } from "../cluster/fleet.ts";
import type { ObservationValue } from "../cluster/keys.ts";
import type { FleetNode } from "../cluster/nodes.ts";
import { readNodes, replicaNode } from "../cluster/nodes.ts";
import type { IsLeft } from "../routes/left.ts";
import { edgesFollowing, edgesInRotation } from "../routes/progress.ts";
import { isServing } from "../tasks/deployment-status.ts";
import { replicasOf } from "../tasks/kinds/serve.ts";
import { Sightings } from "./sightings.ts";
import type { Replica, Site } from "./steps.ts";

/** A site as it was read from Postgres. */
export interface ReadSite {
  deploymentId: string;
  /** Every name at which visitors may still reach it; empty while no replica leaves. */
  hosts: readonly string[];
  /** With what the fleet says at this moment. */
  current(): Site;
  /** Tells of a route whether it sends nobody to the container. */
  isLeft(taskId: string): IsLeft;
}

export interface SiteReaderDeps {
  db: Db;
  fleet: Fleet;
  log: Log;
}

interface SiteTask extends Pick<Task, "id" | "owner_id" | "replica" | "epoch" | "node_id"> {
  served: boolean;
  refused: boolean;
  /** Null: it does not leave. */
  retiring_ms_ago: number | null;
}

interface SiteRow {
  id: string;
  project_id: string;
  channel: Task["channel"];
  pr_number: number | null;
}
type Replaced = Map<number, { count: number; lastAt: Date }>;

const msAgo = (column: "retiring_at" | "created_at") =>
  sql<number | null>`extract(epoch from now() - ${sql.ref(column)})::float8 * 1000`;
const channelOf = (row: Pick<SiteRow, "project_id" | "channel" | "pr_number">): string =>
  `${row.project_id} ${row.channel} ${row.pr_number ?? ""}`;

/** Returns what reads every deployment that a channel serves with containers and that is to be up. */
export function createSiteReader({ db, fleet, log }: SiteReaderDeps): () => Promise<ReadSite[]> {
  const sightings = new Sightings();
  // Manifests never change. Null: it does not parse.
  const replicas = new Map<string, number | null>();

  async function learnReplicas(ids: readonly string[]): Promise<void> {
    const present = new Set(ids);
    for (const id of replicas.keys()) if (!present.has(id)) replicas.delete(id);
    const unknown = ids.filter((id) => !replicas.has(id));
    if (unknown.length === 0) return;
    const rows = await db
      .selectFrom("deployment")
      .select(["id", "manifest"])
      .where("id", "=", sql<string>`any(${unknown}::uuid[])`)
      .execute();
    for (const { id, manifest } of rows) {
      const parsed = storedManifestSchema.safeParse(manifest);
      if (!parsed.success) log.error({ err: parsed.error, deploymentId: id }, "nobody keeps this site's replicas");
      replicas.set(id, parsed.success ? replicasOf(parsed.data) : null);
    }
  }

  return async () => {
    const rows = await listSites(db);
    const ids = rows.map(({ id }) => id);
    await learnReplicas(ids);
    const [tasks, replaced, nodes, edges] = await Promise.all([
      listReplicas(db, ids),
      countReplaced(db, ids, fleet.now),
      readNodes(db),
      edgesInRotation(db),
    ]);
    const readAt = fleet.now();
    sightings.keepOnly(new Set(tasks.map(({ id }) => id)));
    const byDeployment = Map.groupBy(tasks, (task) => task.owner_id);
    const leaving = rows.filter(({ id }) => byDeployment.get(id)?.some((task) => task.retiring_ms_ago !== null));
    const hosts = await listHostsOf(db, leaving);
    return rows.flatMap((row): ReadSite[] => {
      const count = replicas.get(row.id) ?? null;
      if (count === null) return [];
      const own = byDeployment.get(row.id) ?? [];
      const names = hosts.get(channelOf(row)) ?? [];
      const isLeft = own.some((task) => task.retiring_ms_ago !== null);
      return [
        {
          deploymentId: row.id,
          hosts: names,
          isLeft: (taskId) => (route) => !sightings.isAmong(new Set(route?.proxy?.upstreams), taskId, own),
          current() {
            const routed = isLeft ? routedTo(fleet, edges, names) : null;
            const now = fleet.now();
            const found = own.map((task) => findReplica(task, fleet));
            for (const { task, observation } of found) sightings.see(task.id, observation, now);
            return {
              deploymentId: row.id,
              replicas: count,
              running: found.map((each) => {
                const { task } = each;
                const isRouted = routed === null || sightings.isAmong(routed, task.id, own);
                sightings.seeRoute(task.id, task.retiring_ms_ago !== null && !isRouted, now);
                return replicaOf(each, { fleet, nodes, sightings, readAt });
              }),
              replaced: replaced.get(row.id) ?? new Map(),
            };
          },
        },
      ];
    });
  };
}

const listSites = (db: Db): Promise<SiteRow[]> =>
  db
    .selectFrom("channel_state")
    .innerJoin("deployment", "deployment.id", "channel_state.deployment_id")
    .innerJoin("project", "project.id", "channel_state.project_id")
    .select(["deployment.id", "deployment.project_id", "deployment.channel", "deployment.pr_number"])
    .where("channel_state.stopped", "=", false)
    .where("deployment.status", "=", "running")
    .where("deployment.artifact_kind", "=", "image")
    .where("project.suspended_at", "is", null)
    .where("project.deleting_at", "is", null)
    .execute();

async function listReplicas(db: Db, deploymentIds: readonly string[]): Promise<SiteTask[]> {
  if (deploymentIds.length === 0) return [];
  return await db
    .selectFrom("task")
    .select(["id", "owner_id", "replica", "epoch", "node_id"])
    .select([
      sql<boolean>`served_at is not null`.as("served"),
      sql<boolean>`refused is not null`.as("refused"),
      msAgo("retiring_at").as("retiring_ms_ago"),
    ])
    .where("owner_id", "=", sql<string>`any(${deploymentIds}::uuid[])`)
    .where("kind", "=", "serve")
    .where("desired", "=", "running")
    .execute();
}

/** Replacements of the last hour, by deployment and slot, without those that served until another took over. */
export async function countReplaced(
  db: Db,
  deploymentIds: readonly string[],
  now: () => Date,
): Promise<Map<string, Replaced>> {
  const found = new Map<string, Replaced>();
  if (deploymentIds.length === 0) return found;
  const rows = await db
    .selectFrom("task")
    .select(({ fn }) => [
      "owner_id",
      "replica",
      fn.countAll<number>().as("count"),
      fn.min(msAgo("created_at")).as("last_ms_ago"),
    ])
    .where("owner_id", "=", sql<string>`any(${deploymentIds}::uuid[])`)
    .where("cause", "is not", null)
    .where((where) => where.or([where("served_at", "is", null), where("retiring_at", "is", null)]))
    .where("created_at", ">", sql<Date>`now() - interval '1 hour'`)
    .groupBy(["owner_id", "replica"])
    .execute();
  const readAt = now();
  for (const { owner_id, replica, count, last_ms_ago } of rows) {
    const slots = found.get(owner_id) ?? new Map<number, { count: number; lastAt: Date }>();
    const lastAt = before(readAt, last_ms_ago ?? 0);
    found.set(owner_id, slots.set(replica, { count: Number(count), lastAt }));
  }
  return found;
}

const before = (at: Date, ms: number): Date => new Date(at.getTime() - ms);

/** Every name at which visitors may still reach a channel, by channel: also those that redirect, see `listNames`. */
async function listHostsOf(db: Db, sites: readonly SiteRow[]): Promise<Map<string, string[]>> {
  const hosts = new Map<string, string[]>();
  if (sites.length === 0) return hosts;
  const projectIds = [...new Set(sites.map(({ project_id }) => project_id))];
  const rows = await db
    .selectFrom("site_host")
    .select(["host", "project_id", "channel", "pr_number"])
    .where("project_id", "=", sql<string>`any(${projectIds}::uuid[])`)
    .execute();
  for (const row of rows) {
    const own = hosts.get(channelOf(row));
    if (own === undefined) hosts.set(channelOf(row), [row.host]);
    else own.push(row.host);
  }
  return hosts;
}

/** Upstreams to which an edge may send visitors of the site; null: to any of them. */
function routedTo(fleet: Fleet, edges: readonly string[], hosts: readonly string[]): ReadonlySet<string> | null {
  if (edgesFollowing(fleet, edges, hosts) < edges.length) return null;
  return new Set(hosts.flatMap((host) => fleet.route(host)?.proxy?.upstreams ?? []));
}

interface Found {
  task: SiteTask;
  nodeId: string | null;
  observation: ObservationValue | null;
}

function findReplica(task: SiteTask, fleet: Fleet): Found {
  const nodeId = fleet.findPlacement(task.id)?.nodeId ?? task.node_id;
  return { task, nodeId, observation: nodeId === null ? null : fleet.observation(nodeId, task.id) };
}

function replicaOf(
  { task, nodeId, observation }: Found,
  {
    fleet,
    nodes,
    sightings,
    readAt,
  }: { fleet: Fleet; nodes: ReadonlyMap<string, FleetNode>; sightings: Sightings; readAt: Date },
): Replica {
  const { id, retiring_ms_ago: retiringMsAgo } = task;
  const serving = isServing({ observation });
  // Without its engine a node brings nothing back that has gone; what still serves there does so without it.
  const isOut = (id: string) =>
    fleet.nodeLink(id).link === "unreachable" || (!serving && nodes.get(id)?.engine_stalled === true);
  return {
    taskId: id,
    slot: task.replica,
    epoch: task.epoch,
    nodeId,
    node: nodeId === null ? "present" : replicaNode(nodes.get(nodeId), isOut(nodeId)),
    connected: nodeId !== null && fleet.nodeLink(nodeId).link === "connected",
    hasNoRoom: nodeId === null && task.refused,
    serving,
    served: task.served,
    published: task.served || sightings.wasPublished(id),
    endedAt: sightings.endedAt.get(id) ?? null,
    retiring: retiringMsAgo !== null,
    retiringSince: retiringMsAgo === null ? null : before(readAt, retiringMsAgo),
    unroutedAt: sightings.unroutedAt.get(id) ?? null,
  };
}
