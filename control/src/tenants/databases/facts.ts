import { sql } from "kysely";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { hasEnded, isHealthy } from "../../fleet/cluster/keys.ts";
import { type DatabaseTaskSpec, database } from "../../fleet/tasks/kinds/database.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch, Plan, Task } from "../../stores/db/tables.ts";
import type { BranchAddress } from "./admin-sql.ts";
import { holdsBranch } from "./changes/store.ts";
import { roleConnectionLimit, serverResources } from "./limits.ts";
import type { BranchFacts, ServerFacts } from "./steps.ts";

export interface FoundBranch {
  branch: Branch;
  facts: BranchFacts;
  plan: Plan;
  /** Of the server that is wanted, once it is placed; null before. */
  address: BranchAddress | null;
}

/** Everything that decides a branch's next step, read afresh; null when it is no more. */
export async function readBranchFacts(
  { db, fleet }: { db: Db; fleet: Pick<Fleet, "observation"> },
  id: string,
): Promise<FoundBranch | null> {
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
  const [plan, tasks, changing] = await Promise.all([
    planOfUser(db, owner_id),
    listServers(db, id),
    holdsBranch(db, id),
  ]);
  const lastNodeId = tasks.findLast(({ node_id }) => node_id !== null)?.node_id ?? null;
  const open = tasks.filter(({ reaped_at }) => reaped_at === null);
  const wanted = open.find(({ desired }) => desired === "running");
  return {
    branch,
    plan,
    address: wanted?.node_id ? { databaseId: id, nodeId: wanted.node_id, epoch: String(wanted.epoch) } : null,
    facts: {
      status: branch.status,
      sinceMs: since_ms,
      projectGone: deleting_at !== null,
      suspended: is_suspended,
      nodeId: branch.node_id,
      lastNodeId,
      nodeGone: await isNodeGone(db, branch.node_id ?? lastNodeId),
      servers: open.map((task) => serverFacts(task, fleet, serverResources(branch.engine, plan))),
      ...tenantFacts(branch, plan),
      changing,
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

type ServerTask = Task & { age_ms: number };

/** Tasks that were made for it, those that are over included, the oldest first. */
const listServers = (db: Db, databaseId: string): Promise<ServerTask[]> =>
  db
    .selectFrom("task")
    .selectAll()
    .select(sql<number>`extract(epoch from clock_timestamp() - created_at)::float8 * 1000`.as("age_ms"))
    .where("owner_id", "=", databaseId)
    .where("kind", "=", "database")
    .orderBy("epoch")
    .execute();

function serverFacts(
  task: ServerTask,
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
    problem: seen?.failure?.message ?? null,
    ageMs: task.age_ms,
    readOnly: serverSpecOf(task).readOnly,
    outgrown: task.memory_mb !== resources.memoryMb || task.cpu_millicores !== resources.cpuMillicores,
  };
}

/** What a server was asked for with. */
export const serverSpecOf = ({ spec }: Pick<Task, "spec">): DatabaseTaskSpec => database.spec.parse(spec);

/** Whether the machine was declared lost, or removed. */
export async function isNodeGone(db: Db, nodeId: string | null): Promise<boolean> {
  if (nodeId === null) return false;
  const node = await db.selectFrom("node").select("lifecycle").where("id", "=", nodeId).executeTakeFirst();
  return node?.lifecycle !== "active";
}
