import type { HostRow, RouteRows, Scope } from "../routes/rows.ts";
import { inFencedMemory } from "./fenced.ts";
import { fleetNodes } from "./replica-rows.ts";
import type { MemorySite, MemoryTables, Transact } from "./tables.ts";

/** What is asked to tell where hosts lead, answered from memory. Sites there have containers, and no password. */
export const memoryRouteRows = (transact: Transact): RouteRows => ({
  hosts: (scope) =>
    transact(({ tables }) =>
      [...tables.sites.values()].filter((site) => isAmong(site, scope)).map((site) => hostRow(tables, site)),
    ),
  containers: (deploymentIds) =>
    transact(({ tables }) => {
      const among = deploymentIds && new Set(deploymentIds);
      return [...tables.open.values()]
        .filter(
          ({ kind, desired, ownerId }) => kind === "serve" && desired === "running" && (among?.has(ownerId) ?? true),
        )
        .map(({ id, ownerId, nodeId, retiringAt }) => ({
          ...{ id, owner_id: ownerId, node_id: nodeId, retiring_at: retiringAt },
        }));
    }),
  nodes: (ids) => transact(({ tables }) => fleetNodes(tables, ids)),
  projectsOf: (taskIds) =>
    transact(({ tables }) => {
      const tasks = taskIds.flatMap((id) => tables.tasks.get(id) ?? []);
      return [...new Set(tasks.flatMap(({ kind, projectId }) => (kind === "serve" ? [projectId] : [])))];
    }),
  holdsProjects: () => transact(({ tables }) => tables.sites.size > 0),
  place: (epoch, placed) =>
    inFencedMemory(transact, epoch, ({ tables }) => {
      for (const { taskId, nodeId } of placed) {
        const task = tables.tasks.get(taskId);
        if (task !== undefined) Object.assign(task, { nodeId, refused: null });
      }
    }),
});

const isAmong = ({ host, projectId }: MemorySite, scope: Scope | null): boolean =>
  scope === null || scope.projectIds.includes(projectId) || scope.hosts.includes(host);

const hostRow = (tables: MemoryTables, { host, projectId, deploymentId, stopped }: MemorySite): HostRow => ({
  ...{ host, project_id: projectId, channel: "production", redirect_to: null, domain_id: null },
  ...{ hsts_max_age_seconds: null, hsts_include_subdomains: null, suspended_at: null, password_hash: null },
  ...{ stopped, deployment_id: deploymentId, spa: false },
  artifact_kind: deploymentId !== null && tables.deployments.has(deploymentId) ? "image" : null,
  ...{ artifact_repository: null, artifact_digest: null, artifact_size: null },
});
