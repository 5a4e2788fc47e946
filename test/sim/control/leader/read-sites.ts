import type { ObservationValue } from "@svc/control/fleet/cluster/keys";
import type { FleetNode } from "@svc/control/fleet/cluster/nodes";
import { replicaNode } from "@svc/control/fleet/cluster/nodes";
import { Sightings } from "@svc/control/fleet/replicas/sightings";
import type { Site, Replica as SiteReplica } from "@svc/control/fleet/replicas/steps";
import type { Routing } from "@svc/control/fleet/routes/routing";
import { isServing } from "@svc/control/fleet/tasks/deployment-status";
import type { Work } from "../../kernel/kernel.ts";
import type { DeploymentRow, TaskRow } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";
import { routedTo } from "../routed.ts";
import { readNodes } from "./nodes.ts";

/** A site as it was read from Postgres. */
export interface ReadSite {
  deploymentId: string;
  host: string;
  /** With what the fleet says at this moment. */
  current(): Site;
  /** Whether no edge sends visitors to the container, as `routing` has it. */
  isLeft(taskId: string, routing: Routing): boolean;
}

interface SiteRows {
  host: string;
  deployment: DeploymentRow;
  /** Also those that are over. */
  tasks: TaskRow[];
}

/** What sites that were read at one moment have in common. */
interface Reading {
  nodes: ReadonlyMap<string, FleetNode>;
  edges: readonly string[];
  /** By how much the clock of the fleet is ahead of that of Postgres. */
  aheadMs: number;
}

/** Reads every site that runs: mirrors `control/src/fleet/replicas/read.ts`. */
export function createSiteReader(replica: Replica): () => Work<ReadSite[]> {
  const { fleet, world } = replica;
  const sightings = new Sightings();

  return function* () {
    const { rows, now, ...read } = yield* replica.transact((tables) => {
      const running = [...tables.sites.values()].flatMap((site): SiteRows[] => {
        const deployment = site.deploymentId === null ? undefined : tables.deployments.get(site.deploymentId);
        if (deployment === undefined || site.stopped || deployment.status !== "running") return [];
        const tasks = tables.tasksOf(deployment.id).map((task) => ({ ...task }));
        return [{ host: site.host, deployment: { ...deployment }, tasks }];
      });
      return { rows: running, nodes: readNodes(tables), edges: tables.edgesInRotation(), now: world.postgres.now() };
    });
    const reading: Reading = { ...read, aheadMs: fleet.now().getTime() - now.getTime() };
    sightings.keepOnly(new Set(rows.flatMap(({ tasks }) => tasks.filter(isKept).map(({ id }) => id))));
    return rows.map((row) => readSite(replica, sightings, row, reading));
  };
}

const isKept = ({ desired, reapedAt }: TaskRow) => desired === "running" && reapedAt === null;

function readSite(
  { fleet, world: { cores } }: Replica,
  sightings: Sightings,
  { host, deployment, tasks }: SiteRows,
  { nodes, edges, aheadMs }: Reading,
): ReadSite {
  const own = tasks.filter(isKept);
  const served = own.map(({ id, servedAt }) => ({ id, served: servedAt !== null }));
  const isLeaving = own.some(({ retiringAt }) => retiringAt !== null);
  const replaced = replacedOf(tasks, aheadMs, fleet.now());

  function replicaOf({ task, nodeId, observation }: Found): SiteReplica {
    const { id, retiringAt } = task;
    const link = nodeId === null ? null : fleet.nodeLink(nodeId).link;
    return {
      taskId: id,
      slot: task.replica,
      epoch: task.epoch,
      nodeId,
      node: nodeId === null ? "present" : replicaNode(nodes.get(nodeId), link === "unreachable"),
      connected: link === "connected",
      hasNoRoom: nodeId === null && task.refused !== null,
      serving: isServing({ observation }),
      served: task.servedAt !== null,
      published: task.servedAt !== null || sightings.wasPublished(id),
      endedAt: sightings.endedAt.get(id) ?? null,
      retiring: retiringAt !== null,
      retiringSince: retiringAt === null ? null : new Date(retiringAt.getTime() + aheadMs),
      unroutedAt: sightings.unroutedAt.get(id) ?? null,
    };
  }

  return {
    deploymentId: deployment.id,
    host,
    isLeft(taskId, routing) {
      const routed = routedTo(cores, routing, edges, host);
      return routed !== null && !sightings.isAmong(routed, taskId, served);
    },
    current() {
      const routed = isLeaving ? routedTo(cores, fleet, edges, host) : null;
      const now = fleet.now();
      const found = own.map((task): Found => {
        const nodeId = fleet.findPlacement(task.id)?.nodeId ?? task.nodeId;
        return { task, nodeId, observation: nodeId === null ? null : fleet.observation(nodeId, task.id) };
      });
      for (const { task, observation } of found) sightings.see(task.id, observation, now);
      return {
        deploymentId: deployment.id,
        replicas: deployment.replicas,
        running: found.map((each) => {
          const { id, retiringAt } = each.task;
          const isRouted = routed === null || sightings.isAmong(routed, id, served);
          const isUnrouted = !isRouted || !cores.shell.waitsForEdges;
          sightings.seeRoute(id, retiringAt !== null && isUnrouted, now);
          return replicaOf(each);
        }),
        replaced,
      };
    },
  };
}

interface Found {
  task: TaskRow;
  nodeId: string | null;
  observation: ObservationValue | null;
}

/** Replacements of the last hour by slot, without those that served until another took over. */
function replacedOf(tasks: readonly TaskRow[], aheadMs: number, now: Date): Site["replaced"] {
  const replaced = new Map<number, { count: number; lastAt: Date }>();
  for (const { cause, servedAt, retiringAt, createdAt, replica: slot } of tasks) {
    const madeAt = new Date(createdAt.getTime() + aheadMs);
    const didItsPart = servedAt !== null && retiringAt !== null;
    if (cause === null || didItsPart || madeAt.getTime() < now.getTime() - 3_600_000) continue;
    const before = replaced.get(slot);
    const lastAt = before === undefined || before.lastAt < madeAt ? madeAt : before.lastAt;
    replaced.set(slot, { count: (before?.count ?? 0) + 1, lastAt });
  }
  return replaced;
}
