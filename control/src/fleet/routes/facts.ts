import type { Fleet } from "../cluster/fleet.ts";
import { hasEnded } from "../cluster/keys.ts";
import type { FleetNode } from "../cluster/nodes.ts";
import { replicaNode } from "../cluster/nodes.ts";
import { isServing } from "../tasks/deployment-status.ts";
import { type GateSecret, gateOf } from "./gate.ts";
import type { RouteRows, Scope } from "./rows.ts";
import { type ActiveDeployment, type Container, type HostFacts, isUnrecorded, upstreamsOf } from "./table.ts";

/** A container that edges may be told of, and of which Postgres does not know where it is. */
export interface Unrecorded {
  taskId: string;
  nodeId: string;
}

/**
 * Every host with what decides what it serves, from Postgres and the nodes' reports. With a scope every host of its
 * projects and every one of its hosts, each as it would be without.
 */
export async function readHostFacts(
  rows: RouteRows,
  fleet: Fleet,
  gateSecret: GateSecret,
  scope: Scope | null = null,
): Promise<{ facts: HostFacts[]; unrecorded: Unrecorded[] }> {
  const hosts = await rows.hosts(scope);
  const deploymentIds = new Set(hosts.flatMap(({ deployment_id: id }) => id ?? []));
  const { containers, unrecorded } = await readContainers(rows, fleet, scope && [...deploymentIds]);
  const gates = new Map<string, string>();
  const gateFor = (projectId: string, passwordHash: string): string => {
    const gate = gates.get(projectId) ?? gateOf(gateSecret, projectId, passwordHash).revision;
    gates.set(projectId, gate);
    return gate;
  };
  const facts = hosts.map((row) => ({
    host: row.host,
    projectId: row.project_id,
    channel: row.channel,
    redirectTo: row.redirect_to,
    gate: row.password_hash === null || leadsOn(row) ? null : gateFor(row.project_id, row.password_hash),
    hsts:
      row.hsts_max_age_seconds === null
        ? null
        : { maxAgeSeconds: row.hsts_max_age_seconds, includeSubdomains: row.hsts_include_subdomains ?? false },
    suspended: row.suspended_at !== null,
    stopped: row.stopped ?? false,
    active: row.deployment_id === null ? null : activeOf({ ...row, deployment_id: row.deployment_id }, containers),
  }));
  return { facts, unrecorded };
}

/**
 * A custom domain that redirects, such as the www of another one, tells nobody more than where it leads. Whoever had to type
 * the password there would have to do it again behind it: a cookie is of one host.
 */
const leadsOn = (row: { domain_id: string | null; redirect_to: string | null }): boolean =>
  row.domain_id !== null && row.redirect_to !== null;

interface ActiveRow {
  deployment_id: string;
  artifact_kind: "image" | "bundle" | null;
  artifact_repository: string | null;
  artifact_digest: string | null;
  artifact_size: number | null;
  spa: boolean;
}

function activeOf(row: ActiveRow, containers: ReadonlyMap<string, Container[]>): ActiveDeployment | null {
  const { deployment_id: deploymentId, artifact_repository: repository, artifact_digest: digest } = row;
  if (row.artifact_kind === "image")
    return { deploymentId, kind: "image", ...upstreamsOf(containers.get(deploymentId) ?? []) };
  if (row.artifact_kind !== "bundle" || repository === null || digest === null) return null;
  return { deploymentId, kind: "bundle", repository, digest, sizeBytes: row.artifact_size ?? 0, spa: row.spa };
}

/** Containers by deployment: of all, or of some. */
async function readContainers(
  rows: RouteRows,
  fleet: Fleet,
  deploymentIds: readonly string[] | null,
): Promise<{ containers: Map<string, Container[]>; unrecorded: Unrecorded[] }> {
  const listing = rows.containers(deploymentIds);
  const nodesOf = (ids: readonly { id: string }[]) => ids.flatMap(({ id }) => fleet.findPlacement(id)?.nodeId ?? []);
  const [tasks, nodes] = await Promise.all([
    listing,
    deploymentIds === null ? rows.nodes() : listing.then((found) => rows.nodes(nodesOf(found))),
  ]);
  const isStorm = fleet.status()?.storm != null;
  const known = new Map<string, NodeState>();
  const containers = new Map<string, Container[]>();
  const unrecorded: Unrecorded[] = [];
  for (const { id, owner_id: deploymentId, node_id, retiring_at } of tasks) {
    const nodeId = fleet.findPlacement(id)?.nodeId ?? null;
    const observation = nodeId === null ? null : fleet.observation(nodeId, id);
    const node =
      nodeId === null ? unplaced : (known.get(nodeId) ?? nodeState(fleet, nodes.get(nodeId), nodeId, isStorm));
    if (nodeId !== null) known.set(nodeId, node);
    const container: Container = {
      upstream: observation?.upstream ?? null,
      isEntrance: observation?.isEntrance ?? false,
      serving: isServing({ observation }),
      isOver: (observation !== null && hasEnded(observation.observed)) || node.isGone,
      retiring: retiring_at !== null,
      isStale: node.isStale,
    };
    if (nodeId !== null && isUnrecorded(container, nodeId, node_id)) unrecorded.push({ taskId: id, nodeId });
    const own = containers.get(deploymentId);
    if (own === undefined) containers.set(deploymentId, [container]);
    else own.push(container);
  }
  return { containers, unrecorded };
}

/** What becomes of visitors of the containers on a node. */
interface NodeState {
  isGone: boolean;
  isStale: boolean;
}

const unplaced: NodeState = { isGone: false, isStale: false };

/** One that has been silent for half a lease gets no more visitors than it must, unless many are. */
function nodeState(fleet: Fleet, node: FleetNode | undefined, nodeId: string, isStorm: boolean): NodeState {
  const { link } = fleet.nodeLink(nodeId);
  const isSilent = link === "suspect" && fleet.nodeLostAt(nodeId) === null;
  const state = replicaNode(node, !isStorm && link === "unreachable");
  return {
    isGone: state === "gone",
    isStale: state === "lost" || state === "quarantined" || (isSilent && !isStorm),
  };
}
