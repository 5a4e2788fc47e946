import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Task } from "../../stores/db/tables.ts";
import { type FleetNode, readNodes } from "../cluster/nodes.ts";
import { mirrorInPostgres } from "../scheduler/mirror.ts";

/** Some of the sites. */
export interface Scope {
  projectIds: readonly string[];
  /** Whosever they are by now. */
  hosts: readonly string[];
}

/** A host with what Postgres has of what it serves. */
export interface HostRow {
  host: string;
  project_id: string;
  channel: Task["channel"];
  redirect_to: string | null;
  domain_id: string | null;
  hsts_max_age_seconds: number | null;
  hsts_include_subdomains: boolean | null;
  suspended_at: Date | null;
  password_hash: string | null;
  /** Null: the channel never served anything. */
  stopped: boolean | null;
  deployment_id: string | null;
  artifact_kind: Deployment["artifact_kind"];
  artifact_repository: string | null;
  artifact_digest: string | null;
  artifact_size: number | null;
  spa: boolean;
}

/** A container that is to run. */
export type ContainerRow = Pick<Task, "id" | "owner_id" | "node_id" | "retiring_at">;

/** What is asked to tell where hosts lead, and told before edges are. */
export interface RouteRows {
  /** Hosts of projects that are not being deleted: all, or every one of the scope's projects and every one of its hosts. */
  hosts(scope: Scope | null): Promise<HostRow[]>;
  /** Containers that serve, or may: of all deployments, or of these. */
  containers(deploymentIds: readonly string[] | null): Promise<ContainerRow[]>;
  /** Every node, or those of `ids`. */
  nodes(ids?: readonly string[]): Promise<Map<string, FleetNode>>;
  /** The projects of these containers; of other tasks none. */
  projectsOf(taskIds: readonly string[]): Promise<string[]>;
  /** Whether there are projects, also such as are being deleted: a project stays until no edge has a host of it. */
  holdsProjects(): Promise<boolean>;
  /** Takes down where containers are, all or none. @throws LeaderOutdated when another leader is at work */
  place(epoch: bigint, placed: readonly { taskId: string; nodeId: string }[]): Promise<void>;
}

export const routeRows = (db: Db): RouteRows => ({
  hosts: (scope) => listHosts(db, scope),
  containers: (deploymentIds) =>
    db
      .selectFrom("task")
      .select(["id", "owner_id", "node_id", "retiring_at"])
      .where("kind", "=", "serve")
      .where("desired", "=", "running")
      .where("reaped_at", "is", null)
      .$if(deploymentIds !== null, (query) => query.where("owner_id", "=", sql<string>`any(${deploymentIds}::uuid[])`))
      .execute(),
  nodes: (ids) => readNodes(db, ids),
  async projectsOf(taskIds) {
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
  },
  holdsProjects: async () => (await db.selectFrom("project").select("id").limit(1).executeTakeFirst()) !== undefined,
  place: (epoch, placed) => mirrorInPostgres(db, epoch, { placed, reaped: [] }),
});

const listHosts = (db: Db, scope: Scope | null): Promise<HostRow[]> =>
  db
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
