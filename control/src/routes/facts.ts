import { manifestSchema } from "@svc/proto";
import type { Fleet } from "../cluster/fleet.ts";
import { hasEnded } from "../cluster/keys.ts";
import type { Db } from "../db/pool.ts";
import { isServing } from "../deployments/steps.ts";
import { type GateSecret, gateOf } from "./gate.ts";
import type { ActiveDeployment, HostFacts } from "./table.ts";

/** Every host with what decides what it serves, from Postgres and the nodes' reports. */
export async function readHostFacts(db: Db, fleet: Fleet, gateSecret: GateSecret): Promise<HostFacts[]> {
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
    .select([
      "site_host.host",
      "site_host.project_id",
      "site_host.channel",
      "site_host.redirect_to",
      "project.suspended_at",
      "project.password_hash",
      "channel_state.stopped",
      "deployment.id as deployment_id",
      "deployment.artifact_kind",
      "deployment.artifact_repository",
      "deployment.artifact_digest",
      "deployment.artifact_size",
      "deployment.manifest",
    ])
    .where("project.deleting_at", "is", null)
    .execute();
  const containers = await containersByDeployment(db, fleet);
  const gates = new Map<string, string>();
  const gateFor = (projectId: string, passwordHash: string): string => {
    const gate = gates.get(projectId) ?? gateOf(gateSecret, projectId, passwordHash).revision;
    gates.set(projectId, gate);
    return gate;
  };
  return rows.map((row) => ({
    host: row.host,
    projectId: row.project_id,
    channel: row.channel,
    redirectTo: row.redirect_to,
    gate: row.password_hash === null ? null : gateFor(row.project_id, row.password_hash),
    suspended: row.suspended_at !== null,
    stopped: row.stopped ?? false,
    active: row.deployment_id === null ? null : activeOf({ ...row, deployment_id: row.deployment_id }, containers),
  }));
}

interface ActiveRow {
  deployment_id: string;
  artifact_kind: "image" | "bundle" | null;
  artifact_repository: string | null;
  artifact_digest: string | null;
  artifact_size: number | null;
  manifest: unknown;
}

function activeOf(row: ActiveRow, containers: ReadonlyMap<string, Containers>): ActiveDeployment | null {
  const { deployment_id: deploymentId, artifact_repository: repository, artifact_digest: digest } = row;
  if (row.artifact_kind === "image") {
    const { upstreams, canComeBack } = containers.get(deploymentId) ?? { upstreams: [], canComeBack: false };
    return { deploymentId, kind: "image", upstreams, isOver: !canComeBack };
  }
  if (row.artifact_kind !== "bundle" || repository === null || digest === null) return null;
  const manifest = manifestSchema.parse(row.manifest);
  const spa = "app" in manifest && manifest.app.spa;
  return { deploymentId, kind: "bundle", repository, digest, sizeBytes: row.artifact_size ?? 0, spa };
}

interface Containers {
  /** Of those that answer now. */
  upstreams: string[];
  /** At least one runs, starts, or is started again. */
  canComeBack: boolean;
}

async function containersByDeployment(db: Db, fleet: Fleet): Promise<Map<string, Containers>> {
  const tasks = await db
    .selectFrom("task")
    .select(["id", "deployment_id"])
    .where("kind", "=", "serve")
    .where("desired", "=", "running")
    .where("reaped_at", "is", null)
    .execute();
  const containers = new Map<string, Containers>();
  for (const { id, deployment_id: deploymentId } of tasks) {
    const known = containers.get(deploymentId) ?? { upstreams: [], canComeBack: false };
    containers.set(deploymentId, known);
    const placed = fleet.findPlacement(id);
    const observation = placed && fleet.observation(placed.nodeId, id);
    known.canComeBack ||= !observation || !hasEnded(observation.observed);
    if (observation && isServing({ observation }) && observation.upstream !== null)
      known.upstreams.push(observation.upstream);
  }
  return containers;
}
