import { storedManifestSchema } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Task } from "../../stores/db/tables.ts";
import { inFencedTransaction } from "../cluster/fenced.ts";
import { type FleetNode, readNodes } from "../cluster/nodes.ts";
import { edgesInRotation } from "../routes/progress.ts";
import { replicasOf } from "../tasks/kinds/serve.ts";
import { carryOutInPostgres, type DecidedBy } from "./carry-out.ts";
import type { ReplicaStep, Site } from "./steps.ts";

/** A deployment that a channel serves. */
export interface SiteRow {
  id: string;
  project_id: string;
  channel: Task["channel"];
  pr_number: number | null;
}

/** A container that is to run. */
export interface SiteTask extends Pick<Task, "id" | "owner_id" | "replica" | "epoch" | "node_id"> {
  served: boolean;
  refused: boolean;
  /** Null: it does not leave. */
  retiring_ms_ago: number | null;
}

/** How many containers were made in place of others in one slot in the last hour, and how long ago the last one. */
export interface ReplacedRow extends Pick<Task, "owner_id" | "replica"> {
  count: number;
  last_ms_ago: number;
}

/** A name at which visitors reach a channel. */
export interface NameRow extends Omit<SiteRow, "id"> {
  host: string;
}

/** How many containers a deployment is to have; null: its manifest cannot be read, and why. */
export type SiteSize = { id: string; replicas: number } | { id: string; replicas: null; problem: Error };

/** What is asked to keep sites at their number of replicas, and what is changed for that. */
export interface ReplicaRows {
  /** Deployments that a channel serves with containers and that are to be up. */
  sites(): Promise<SiteRow[]>;
  /** It never changes. */
  sizes(deploymentIds: readonly string[]): Promise<SiteSize[]>;
  tasks(deploymentIds: readonly string[]): Promise<SiteTask[]>;
  /** Without those that served until another took over. */
  replaced(deploymentIds: readonly string[]): Promise<ReplacedRow[]>;
  /** Also those that redirect. */
  names(projectIds: readonly string[]): Promise<NameRow[]>;
  /** Every node. */
  nodes(): Promise<Map<string, FleetNode>>;
  /** Edges that visitors may reach. */
  edges(): Promise<string[]>;
  /** Keeps of containers that they have served; once kept it stays. @throws LeaderOutdated when another leader is at work */
  noteServed(epoch: bigint, taskIds: readonly string[]): Promise<void>;
  /**
   * Carries out the steps of one site, all or none. False when the site is not served any more, or its replicas are others than
   * the steps were decided on. @throws LeaderOutdated when another leader is at work
   */
  carryOut(by: DecidedBy, site: Site, steps: readonly ReplicaStep[]): Promise<boolean>;
}

const msAgo = (column: "retiring_at" | "created_at") =>
  sql<number | null>`extract(epoch from now() - ${sql.ref(column)})::float8 * 1000`;

export const replicaRows = (db: Db): ReplicaRows => ({
  sites: () =>
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
      .execute(),
  async sizes(deploymentIds) {
    const rows = await db
      .selectFrom("deployment")
      .select(["id", "manifest"])
      .where("id", "=", sql<string>`any(${deploymentIds}::uuid[])`)
      .execute();
    return rows.map(({ id, manifest }) => {
      const parsed = storedManifestSchema.safeParse(manifest);
      return parsed.success ? { id, replicas: replicasOf(parsed.data) } : { id, replicas: null, problem: parsed.error };
    });
  },
  async tasks(deploymentIds) {
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
  },
  async replaced(deploymentIds) {
    if (deploymentIds.length === 0) return [];
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
    return rows.map(({ count, last_ms_ago, ...row }) => ({
      ...row,
      count: Number(count),
      last_ms_ago: last_ms_ago ?? 0,
    }));
  },
  async names(projectIds) {
    if (projectIds.length === 0) return [];
    return await db
      .selectFrom("site_host")
      .select(["host", "project_id", "channel", "pr_number"])
      .where("project_id", "=", sql<string>`any(${projectIds}::uuid[])`)
      .execute();
  },
  nodes: () => readNodes(db),
  edges: () => edgesInRotation(db),
  noteServed: (epoch, taskIds) =>
    inFencedTransaction(db, epoch, async (tx) => {
      await tx
        .updateTable("task")
        .set({ served_at: sql<Date>`now()` })
        .where("id", "in", (eb) =>
          eb
            .selectFrom("task")
            .select("id")
            .where("id", "=", sql<string>`any(${taskIds}::uuid[])`)
            .where("served_at", "is", null)
            .forNoKeyUpdate()
            .skipLocked(),
        )
        .execute();
    }),
  carryOut: (by, site, steps) => carryOutInPostgres(db, by, site, steps),
});
