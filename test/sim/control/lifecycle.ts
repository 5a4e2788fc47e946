import type { LifecyclePayload } from "@svc/control/tenants/deployments/lifecycle/rows";
import { openStatuses } from "@svc/proto";
import type { DeploymentRow, SiteRow, Tables } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";

const open = new Set<string>(openStatuses);

/** Somebody stops what a site serves: mirrors `control/src/tenants/deployments/lifecycle/{request,hold}.ts`. */
export function requestStop(world: World, tables: Tables, site: SiteRow): void {
  const row = servedBy(tables, site);
  if (row === undefined) return;
  const takesOver = row.status === "deploying" && tables.servingBeside(row).some(({ status }) => status === "running");
  if (row.status !== "running" && !takesOver) return;
  world.checks.onStopAsked(site);
  if (world.cores.shell.stopsCoverOpen) {
    for (const each of openOf(tables, site)) each.heldAt ??= world.postgres.now();
  }
  enqueueOnce(world, tables, "stop", row);
}

/** Somebody has the site serve again, and with it what the stop held. */
export function requestStart(world: World, tables: Tables, site: SiteRow): void {
  const row = servedBy(tables, site);
  if (row?.status !== "stopped") return;
  world.checks.onStartAsked(site.projectId);
  for (const each of openOf(tables, site)) each.heldAt = null;
  if (enqueueOnce(world, tables, "start", row)) Object.assign(row, { heldAt: null, error: null });
}

const servedBy = (tables: Tables, { deploymentId }: SiteRow): DeploymentRow | undefined =>
  deploymentId === null ? undefined : tables.deployments.get(deploymentId);

const openOf = (tables: Tables, { projectId }: SiteRow): DeploymentRow[] =>
  [...tables.deployments.values()].filter((row) => row.projectId === projectId && open.has(row.status));

/** False when the same is waiting already. */
function enqueueOnce(
  world: World,
  tables: Tables,
  action: LifecyclePayload["action"],
  { id, projectId }: DeploymentRow,
): boolean {
  const key = `lifecycle/${projectId}`;
  const isWaiting = [...tables.work.items.values()].some((item) => {
    const { deploymentId, action: asked } = item.payload as LifecyclePayload;
    return item.key === key && asked === action && deploymentId === id;
  });
  const payload: LifecyclePayload = { projectId, action, deploymentId: id };
  if (!isWaiting) tables.work.add({ now: world.postgres.now(), notify() {} }, { kind: "lifecycle", key, payload });
  return !isWaiting;
}
