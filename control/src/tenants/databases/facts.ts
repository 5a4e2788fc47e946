import type { DatabaseFailureCode } from "@svc/proto";
import { sql } from "kysely";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { hasEnded, isFallenOver, isHealthy } from "../../fleet/cluster/keys.ts";
import { type DatabaseTaskSpec, database } from "../../fleet/tasks/kinds/database.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch, Plan, Task } from "../../stores/db/tables.ts";
import type { BranchAddress } from "./admin-sql.ts";
import { holdsBranch } from "./changes/store.ts";
import { roleConnectionLimit, serverResources } from "./limits.ts";
import type { BranchFacts, ServerFacts } from "./steps.ts";

/** What an owner's plan gives a branch. */
export type BranchPlan = Pick<Plan, "db_connection_limit" | "db_size_mb" | "cpu_millicores">;

/** The same with where its servers may run. */
export type ServerPlan = BranchPlan & Pick<Plan, "node_selector">;

/** A task that is or was the server of a branch. */
export interface ServerRow
  extends Pick<
    Task,
    "id" | "epoch" | "desired" | "node_id" | "refused" | "reaped_at" | "spec" | "memory_mb" | "cpu_millicores"
  > {
  age_ms: number;
}

/** A branch, and what is written down that decides its next step. */
export interface BranchRow<P extends BranchPlan = Plan> {
  branch: Branch;
  plan: P;
  /** For how long it has had its status. */
  sinceMs: number;
  projectGone: boolean;
  suspended: boolean;
  /** Those that are over included, the oldest first. */
  servers: readonly ServerRow[];
  /** The machine of its data was declared lost, or removed; see `nodeOfData`. */
  nodeGone: boolean;
  changing: boolean;
}

export interface FoundBranch<P extends BranchPlan = Plan> {
  branch: Branch;
  facts: BranchFacts;
  plan: P;
  /** Of the server that is wanted, once it is placed; null before. */
  address: BranchAddress | null;
}

/** Everything that decides a branch's next step, read afresh; null when it is no more. */
export async function readBranchFacts(
  { db, fleet }: { db: Db; fleet: Pick<Fleet, "observation"> },
  id: string,
): Promise<FoundBranch | null> {
  const row = await findBranchRow(db, id);
  return row && foundBranch(row, fleet);
}

/** The part of it that is in Postgres. */
export async function findBranchRow(db: Db, id: string): Promise<BranchRow | null> {
  const row = await db
    .selectFrom("database")
    .innerJoin("project", "project.id", "database.project_id")
    .selectAll("database")
    .select([
      "project.owner_id",
      "project.deleting_at",
      sql<boolean>`project.suspended_at is not null and project.resuming_at is null`.as("is_suspended"),
      sql<number>`extract(epoch from clock_timestamp() - database.status_at)::float8 * 1000`.as("since_ms"),
    ])
    .where("database.id", "=", id)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { owner_id, deleting_at, is_suspended, since_ms, ...branch } = row;
  const [plan, servers, changing] = await Promise.all([
    planOfUser(db, owner_id),
    listServers(db, id),
    holdsBranch(db, id),
  ]);
  return {
    ...{ branch, plan, servers, changing },
    ...{ sinceMs: since_ms, projectGone: deleting_at !== null, suspended: is_suspended },
    nodeGone: await isNodeGone(db, nodeOfData(branch, servers)),
  };
}

/** Where its last server was placed, also one that is over; null: none was. */
const lastNodeOf = (servers: readonly Pick<ServerRow, "node_id">[]): string | null =>
  servers.findLast(({ node_id }) => node_id !== null)?.node_id ?? null;

/** The machine that has its data, or is about to. */
export const nodeOfData = (
  { node_id }: Pick<Branch, "node_id">,
  servers: readonly Pick<ServerRow, "node_id">[],
): string | null => node_id ?? lastNodeOf(servers);

/** The same with what its server says of itself. */
export function foundBranch<P extends BranchPlan>(
  { branch, plan, sinceMs, projectGone, suspended, servers, nodeGone, changing }: BranchRow<P>,
  fleet: Pick<Fleet, "observation">,
): FoundBranch<P> {
  const open = servers.filter(({ reaped_at }) => reaped_at === null);
  const wanted = open.find(({ desired }) => desired === "running");
  return {
    ...{ branch, plan },
    address: wanted?.node_id ? { databaseId: branch.id, nodeId: wanted.node_id, epoch: String(wanted.epoch) } : null,
    facts: {
      ...{ status: branch.status, sinceMs, projectGone, suspended, nodeGone, changing },
      nodeId: branch.node_id,
      lastNodeId: lastNodeOf(servers),
      serverFailures: branch.server_failures,
      servers: open.map((task) => serverFacts(task, fleet, serverResources(branch.engine, plan))),
      ...tenantFacts(branch, plan),
    },
  };
}

/** What the branch's own row says of how its server and its tenant are to be. */
export const tenantFacts = (
  branch: Branch,
  plan: Pick<Plan, "db_connection_limit">,
): Pick<BranchFacts, "tenantCurrent" | "rotating" | "readOnly" | "standsBy"> => ({
  tenantCurrent: branch.tenant_at !== null && branch.role_connection_limit === roleConnectionLimit(plan),
  rotating: branch.pending_secret !== null,
  readOnly: branch.read_only,
  standsBy: branch.engine === "postgres" && branch.read_only_soft !== true,
});

/** Tasks that were made for it, those that are over included, the oldest first. */
const listServers = (db: Db, databaseId: string): Promise<ServerRow[]> =>
  db
    .selectFrom("task")
    .selectAll()
    .select(sql<number>`extract(epoch from clock_timestamp() - created_at)::float8 * 1000`.as("age_ms"))
    .where("owner_id", "=", databaseId)
    .where("kind", "=", "database")
    .orderBy("epoch")
    .execute();

/** Codes of failures that no other server on the same data gets over. */
const lasting: ReadonlySet<string> = new Set<DatabaseFailureCode>([
  "DATABASE_DATA_MISSING",
  "DATABASE_VERSION_MISMATCH",
  "DATABASE_SPEC_INVALID",
]);

function serverFacts(
  task: ServerRow,
  fleet: Pick<Fleet, "observation">,
  resources: ReturnType<typeof serverResources>,
): ServerFacts {
  const seen = task.node_id === null ? null : fleet.observation(task.node_id, task.id);
  const isServing = isHealthy(seen);
  return {
    taskId: task.id,
    wanted: task.desired === "running",
    nodeId: task.node_id,
    refused: task.refused,
    state: isServing ? "serving" : seen !== null && hasEnded(seen.observed) ? "failed" : "starting",
    problem: seen?.failure ? saidOfIt(seen.failure.message) : null,
    failsAgain: seen?.failure != null && lasting.has(seen.failure.code),
    isDown: isFallenOver(seen),
    ageMs: task.age_ms,
    readOnly: serverSpecOf(task).readOnly,
    outgrown: task.memory_mb !== resources.memoryMb || task.cpu_millicores !== resources.cpuMillicores,
  };
}

/** Nodes call whatever they run an app. */
const saidOfIt = (message: string): string => message.replace(/^The app /, "it ");

/** What a server was asked for with. */
export const serverSpecOf = ({ spec }: Pick<Task, "spec">): DatabaseTaskSpec => database.spec.parse(spec);

/** Whether the machine was declared lost, or removed. */
export async function isNodeGone(db: Db, nodeId: string | null): Promise<boolean> {
  if (nodeId === null) return false;
  const node = await db.selectFrom("node").select("lifecycle").where("id", "=", nodeId).executeTakeFirst();
  return node?.lifecycle !== "active";
}
