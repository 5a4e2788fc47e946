import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { hasEnded } from "../cluster/keys.ts";
import type { FleetNode } from "../cluster/nodes.ts";
import { readNodes, replicaNode } from "../cluster/nodes.ts";
import { isServing } from "../tasks/deployment-status.ts";
import { type GateSecret, gateOf } from "./gate.ts";
import { type ActiveDeployment, type Container, type HostFacts, isUnrecorded, upstreamsOf } from "./table.ts";

/** A container that edges may be told of, and of which Postgres does not know where it is. */
export interface Unrecorded {
  taskId: string;
  nodeId: string;
}

/** Whether there are projects, also such as are being deleted: a project stays until no edge has a host of it. */
export const holdsProjects = async (db: Db): Promise<boolean> =>
  (await db.selectFrom("project").select("id").limit(1).executeTakeFirst()) !== undefined;

/** Some of the sites. */
export interface Scope {
  projectIds: readonly string[];
  /** Whosever they are by now. */
  hosts: readonly string[];
}

/** The projects of these containers; of other tasks none. */
export async function projectsOfContainers(db: Db, taskIds: readonly string[]): Promise<string[]> {
  if (taskIds.length === 0) return [];
  const rows = await db
    .selectFrom("task")
    .innerJoin("deployment", "deployment.id", "task.owner_id")
    .select("deployment.project_id")
    .distinct()
    .where("task.id", "=", sql<string>`any(${taskIds}::uuid[])`)
    .where("task.kind", "=", "serve")
    .execute();
  return rows.map(({ project_id }) => project_id);
}

/**
 * Every host with what decides what it serves, from Postgres and the nodes' reports. With a scope every host of its
 * projects and every one of its hosts, each as it would be without.
 */
export async function readHostFacts(
  db: Db,
  fleet: Fleet,
  gateSecret: GateSecret,
  scope: Scope | null = null,
): Promise<{ facts: HostFacts[]; unrecorded: Unrecorded[] }> {
  const rows = await db
    .selectFrom("site_host")
    .innerJoin("project", "project.id", "site_host.project_id")
    .leftJoin("channel_state", (join) =>
      join
        .onRef("channel_state.project_id", "=", "site_host.project_id")
        .onRef("channel_state.channel", "=", "site_host.channel")
        .on((on) => on("channel_state.pr_number", "=", on.fn.coalesce("site_host.pr_number", on.lit(0)))),
    )
    .leftJoin("deployment", "deployment.id", "channel_state.deployment_id")
    .leftJoin("custom_domain", "custom_domain.id", "site_host.domain_id")
    .select([
      "site_host.host",
      "site_host.project_id",
      "site_host.channel",
      "site_host.redirect_to",
      "site_host.domain_id",
      "custom_domain.hsts_max_age_seconds",
      "custom_domain.hsts_include_subdomains",
      "project.suspended_at",
      "project.password_hash",
      "channel_state.stopped",
      "deployment.id as deployment_id",
      "deployment.artifact_kind",
      "deployment.artifact_repository",
      "deployment.artifact_digest",
      "deployment.artifact_size",
    ])
    // Of thousands of manifests nothing else is needed.
    .select(sql<boolean>`coalesce(deployment.manifest #>> '{app,spa}' = 'true', false)`.as("spa"))
    .where("project.deleting_at", "is", null)
    .$if(scope !== null, (query) =>
      query.where((where) =>
        where.or([
          where("site_host.project_id", "=", sql<string>`any(${scope?.projectIds}::uuid[])`),
          where("site_host.host", "=", sql<string>`any(${scope?.hosts}::text[])`),
        ]),
      ),
    )
    .execute();
  const deploymentIds = new Set(rows.flatMap(({ deployment_id: id }) => id ?? []));
  const { containers, unrecorded } = await readContainers(db, fleet, scope && [...deploymentIds]);
  const gates = new Map<string, string>();
  const gateFor = (projectId: string, passwordHash: string): string => {
    const gate = gates.get(projectId) ?? gateOf(gateSecret, projectId, passwordHash).revision;
    gates.set(projectId, gate);
    return gate;
  };
  const facts = rows.map((row) => ({
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
  db: Db,
  fleet: Fleet,
  deploymentIds: readonly string[] | null,
): Promise<{ containers: Map<string, Container[]>; unrecorded: Unrecorded[] }> {
  const listing = db
    .selectFrom("task")
    .select(["id", "owner_id", "node_id", "retiring_at"])
    .where("kind", "=", "serve")
    .where("desired", "=", "running")
    .where("reaped_at", "is", null)
    .$if(deploymentIds !== null, (query) => query.where("owner_id", "=", sql<string>`any(${deploymentIds}::uuid[])`))
    .execute();
  const nodesOf = (ids: readonly { id: string }[]) => ids.flatMap(({ id }) => fleet.findPlacement(id)?.nodeId ?? []);
  const [tasks, nodes] = await Promise.all([
    listing,
    deploymentIds === null ? readNodes(db) : listing.then((found) => readNodes(db, nodesOf(found))),
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
