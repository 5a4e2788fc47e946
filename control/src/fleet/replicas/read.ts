import type { Log } from "../../log.ts";
import type { Fleet } from "../cluster/fleet.ts";
import type { ObservationValue } from "../cluster/keys.ts";
import type { FleetNode } from "../cluster/nodes.ts";
import { replicaNode } from "../cluster/nodes.ts";
import type { IsLeft } from "../routes/left.ts";
import { edgesFollowing } from "../routes/progress.ts";
import { isServing } from "../tasks/deployment-status.ts";
import type { ReplicaRows, SiteRow, SiteTask } from "./rows.ts";
import { Sightings } from "./sightings.ts";
import type { Replica, Site } from "./steps.ts";

/** A site as it was read from Postgres. */
export interface ReadSite {
  deploymentId: string;
  /** Every name at which visitors may still reach it; empty while no replica leaves. */
  hosts: readonly string[];
  /** One of its replicas is on its way out. */
  isLeaving: boolean;
  /** With what the fleet says at this moment. */
  current(): Site;
  /** Tells of a route whether it sends nobody to the container. */
  isLeft(taskId: string): IsLeft;
}

export interface SiteReaderDeps {
  rows: ReplicaRows;
  fleet: Fleet;
  log: Log;
}

type Replaced = Map<number, { count: number; lastAt: Date }>;

const channelOf = (row: Pick<SiteRow, "project_id" | "channel" | "pr_number">): string =>
  `${row.project_id} ${row.channel} ${row.pr_number ?? ""}`;

/** Returns what reads every deployment that a channel serves with containers and that is to be up. */
export function createSiteReader({ rows, fleet, log }: SiteReaderDeps): () => Promise<ReadSite[]> {
  const sightings = new Sightings();
  // Manifests never change. Null: it does not parse.
  const replicas = new Map<string, number | null>();

  async function learnReplicas(ids: readonly string[]): Promise<void> {
    const present = new Set(ids);
    for (const id of replicas.keys()) if (!present.has(id)) replicas.delete(id);
    const unknown = ids.filter((id) => !replicas.has(id));
    if (unknown.length === 0) return;
    for (const size of await rows.sizes(unknown)) {
      if (size.replicas === null)
        log.error({ err: size.problem, deploymentId: size.id }, "nobody keeps this site's replicas");
      replicas.set(size.id, size.replicas);
    }
  }

  return async () => {
    const sites = await rows.sites();
    const ids = sites.map(({ id }) => id);
    await learnReplicas(ids);
    const [tasks, replaced, nodes, edges] = await Promise.all([
      rows.tasks(ids),
      countReplaced(rows, ids, fleet.now),
      rows.nodes(),
      rows.edges(),
    ]);
    const readAt = fleet.now();
    sightings.keepOnly(new Set(tasks.map(({ id }) => id)));
    const byDeployment = Map.groupBy(tasks, (task) => task.owner_id);
    const leaving = sites.filter(({ id }) => byDeployment.get(id)?.some((task) => task.retiring_ms_ago !== null));
    const hosts = await listHostsOf(rows, leaving);
    return sites.flatMap((row): ReadSite[] => {
      const count = replicas.get(row.id) ?? null;
      if (count === null) return [];
      const own = byDeployment.get(row.id) ?? [];
      const names = hosts.get(channelOf(row)) ?? [];
      const isLeaving = own.some((task) => task.retiring_ms_ago !== null);
      return [
        {
          deploymentId: row.id,
          hosts: names,
          isLeaving,
          isLeft: (taskId) => (route) => !sightings.isAmong(new Set(route?.proxy?.upstreams), taskId, own),
          current() {
            const routed = isLeaving ? routedTo(fleet, edges, names) : null;
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

/** Replacements of the last hour, by deployment and slot, without those that served until another took over. */
export async function countReplaced(
  rows: Pick<ReplicaRows, "replaced">,
  deploymentIds: readonly string[],
  now: () => Date,
): Promise<Map<string, Replaced>> {
  const found = new Map<string, Replaced>();
  const replaced = await rows.replaced(deploymentIds);
  const readAt = now();
  for (const { owner_id, replica, count, last_ms_ago } of replaced) {
    const slots = found.get(owner_id) ?? new Map<number, { count: number; lastAt: Date }>();
    found.set(owner_id, slots.set(replica, { count, lastAt: before(readAt, last_ms_ago) }));
  }
  return found;
}

const before = (at: Date, ms: number): Date => new Date(at.getTime() - ms);

/** Every name at which visitors may still reach a channel, by channel: also those that redirect, see `listNames`. */
async function listHostsOf(rows: ReplicaRows, sites: readonly SiteRow[]): Promise<Map<string, string[]>> {
  const hosts = new Map<string, string[]>();
  for (const row of await rows.names([...new Set(sites.map(({ project_id }) => project_id))])) {
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
