import { hasEnded, keys, type RoutesMetaValue } from "@svc/control/fleet/cluster/keys";
import { replicaNode } from "@svc/control/fleet/cluster/nodes";
import type { Unrecorded } from "@svc/control/fleet/routes/facts";
import { type Container, type HostFacts, isUnheard, isUnrecorded, upstreamsOf } from "@svc/control/fleet/routes/table";
import { isServing } from "@svc/control/fleet/tasks/deployment-status";
import type { Work } from "../../kernel/kernel.ts";
import type { Op } from "../../stores/etcd.ts";
import type { Replica } from "../replica.ts";
import { inFencedTransaction, type Leader } from "./fenced.ts";
import { readNodes } from "./nodes.ts";

/** As `control/src/fleet/routes/publisher.ts` has them. */
const firstTableMs = 60_000;
const generationsPerEpoch = 2 ** 30;

/** Publishes the table of routes if it is another one than edges have: mirrors `control/src/fleet/routes/publisher.ts`. */
export function* publishOnce(leader: Leader): Work {
  const { replica, leadership } = leader;
  const { fleet, world } = replica;
  const { facts, unrecorded } = yield* readHosts(replica);
  if (unrecorded.length > 0) {
    yield* inFencedTransaction(leader, (tables) => {
      for (const { taskId, nodeId } of unrecorded) {
        const task = tables.tasks.get(taskId);
        if (task !== undefined) Object.assign(task, { nodeId, refused: null });
      }
    });
  }
  const table = fleet.routeTable();
  const { modRevision, ...meta } = fleet.routesMeta();
  const isFirst = modRevision === null;
  // Edges keep the table that they have until nodes have told what they run, also those of a restored etcd.
  const isEarly = fleet.now().getTime() - fleet.lookingSince.getTime() < firstTableMs;
  if (isFirst && isEarly && facts.some(isUnheard)) return;
  const generation = isFirst ? (replica.clusterEpoch - 1) * generationsPerEpoch : meta.generation;
  const change = world.cores.tableChange(table, facts);
  if (change.upserts.length === 0 && change.removedHosts.length === 0 && !isFirst) return;
  const next = world.cores.applyChange(table, change);
  const nextMeta: RoutesMetaValue = { generation: generation + 1, digest: "", count: next.length };
  const ops: Op[] = [
    ...change.upserts.map((entry): Op => ({ put: { key: keys.route(entry.host), value: world.values.textOf(entry) } })),
    ...change.removedHosts.map((host): Op => ({ delete: { key: keys.route(host) } })),
    { put: { key: keys.routesMeta, value: world.values.textOf(nextMeta) } },
  ];
  yield* leadership.txn(ops, [
    modRevision === null
      ? { key: keys.routesMeta, compare: "absent" }
      : { key: keys.routesMeta, compare: "modRevision", value: modRevision },
  ]);
}

/** What each host has to show, and where: mirrors `control/src/fleet/routes/facts.ts`. */
function* readHosts(replica: Replica): Work<{ facts: HostFacts[]; unrecorded: Unrecorded[] }> {
  const { fleet } = replica;
  const read = yield* replica.transact((tables) => ({
    sites: [...tables.sites.values()].map((site) => ({ ...site })),
    tasks: [...tables.open.values()].filter(({ desired }) => desired === "running").map((task) => ({ ...task })),
    nodes: readNodes(tables),
  }));
  const isStorm = fleet.status()?.storm != null;
  const containers = new Map<string, Container[]>();
  const unrecorded: Unrecorded[] = [];
  for (const { id, ownerId: deploymentId, retiringAt, nodeId: recorded } of read.tasks) {
    const nodeId = fleet.findPlacement(id)?.nodeId ?? null;
    const observation = nodeId === null ? null : fleet.observation(nodeId, id);
    const node =
      nodeId === null
        ? "present"
        : replicaNode(read.nodes.get(nodeId), !isStorm && fleet.nodeLink(nodeId).link === "unreachable");
    const isSilent = nodeId !== null && fleet.nodeLink(nodeId).link === "suspect" && fleet.nodeLostAt(nodeId) === null;
    const container: Container = {
      upstream: observation?.upstream ?? null,
      isEntrance: false,
      serving: isServing({ observation }),
      isOver: (observation !== null && hasEnded(observation.observed)) || node === "gone",
      retiring: retiringAt !== null,
      isStale: node === "lost" || node === "quarantined" || (isSilent && !isStorm),
    };
    if (nodeId !== null && isUnrecorded(container, nodeId, recorded)) unrecorded.push({ taskId: id, nodeId });
    const own = containers.get(deploymentId) ?? [];
    containers.set(deploymentId, own);
    own.push(container);
  }
  const facts = read.sites.map(
    ({ host, projectId, stopped, deploymentId }): HostFacts => ({
      ...{
        host,
        projectId,
        stopped,
        channel: "production",
        redirectTo: null,
        gate: null,
        hsts: null,
        suspended: false,
      },
      active:
        deploymentId === null
          ? null
          : { deploymentId, kind: "image", ...upstreamsOf(containers.get(deploymentId) ?? []) },
    }),
  );
  return { facts, unrecorded };
}
