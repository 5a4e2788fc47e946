import { createHash } from "node:crypto";
import { canonicalJson } from "@svc/runtime/canonical-json";
import { sql } from "kysely";
import { notifying } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Task } from "../../stores/db/tables.ts";
import { beginPush } from "../artifacts/store.ts";
import { taskTopic } from "../cluster/topics.ts";
import { needsOf, ownerKindOf, type TaskSpec } from "./kinds/index.ts";
import type { NewTask } from "./kinds/kind.ts";

/**
 * Asks for a task; the leader finds a node for it. Returns its id, which is the placement's id, and the tag under
 * which a build pushes what it makes.
 */
export async function insertTask(
  db: Db,
  owner: Pick<Task, "project_id" | "channel"> & { id: string; pr_number: number | null },
  task: NewTask<TaskSpec>,
  // `cause`: why it is made in place of another; null: it is not.
  { replica, cause = null }: { replica: number; cause?: string | null },
): Promise<string> {
  const { id } = await db
    .insertInto("task")
    .values({
      project_id: owner.project_id,
      owner_kind: ownerKindOf(task.spec),
      owner_id: owner.id,
      kind: task.spec.kind,
      channel: owner.channel,
      pr_number: owner.pr_number ?? 0,
      replica,
      cause,
      spec: JSON.stringify(task.spec),
      spec_hash: specHash(task.spec),
      memory_mb: task.memoryMb,
      cpu_millicores: task.cpuMillicores,
      pids_limit: task.pidsLimit,
      storage_mb: task.storageMb,
      reserved_memory_mb: task.reservedMemoryMb,
      reserved_cpu_millicores: task.reservedCpuMillicores,
      node_selector: { ...task.nodeSelector },
      pinned_to: task.pinnedTo ?? null,
    })
    .returning(["id", notifying(taskTopic)])
    .executeTakeFirstOrThrow();
  const { push } = needsOf(task.spec);
  if (push !== null) await beginPush(db, { id, projectId: owner.project_id, ...push });
  return id;
}

/** Two specs with the same hash are the same work. */
const specHash = (spec: TaskSpec): string => createHash("sha256").update(canonicalJson(spec)).digest("hex");

const openColumns = [
  "id",
  "project_id",
  "owner_kind",
  "owner_id",
  "kind",
  "channel",
  "epoch",
  "desired",
  "drain_seconds",
  "spec_hash",
  "memory_mb",
  "cpu_millicores",
  "pids_limit",
  "storage_mb",
  "reserved_memory_mb",
  "reserved_cpu_millicores",
  "node_selector",
  "pinned_to",
  "node_id",
  "refused",
] as const satisfies readonly (keyof Task)[];

/** What placing a task needs, with the platform that its image is for and the bytes that it is pulled as. */
export interface OpenTask extends Pick<Task, (typeof openColumns)[number]> {
  os: string | null;
  architecture: string | null;
  artifact_size: number | null;
  /** What the owner of a database may store in it, in MiB; null for everything else. */
  database_size_mb: number | null;
  /** A build of its user's own Dockerfile. */
  has_dockerfile: boolean;
  /** How long ago it was made, by the database's clock. */
  waited_ms: number;
}

/** Tasks that are not over: what the leader keeps etcd in step with. Without their specs: it reads all of them often. */
export const listOpenTasks = (db: Db): Promise<OpenTask[]> =>
  db
    .selectFrom("task")
    .leftJoin("deployment", "deployment.id", "task.owner_id")
    .select(openColumns.map((column) => `task.${column}` as const))
    .select([
      "deployment.artifact_os as os",
      "deployment.artifact_architecture as architecture",
      "deployment.artifact_size",
      sql<boolean>`task.kind = 'build' and coalesce(task.spec #>> '{recipe,image,dockerfile}', '') <> ''`.as(
        "has_dockerfile",
      ),
      sql<number | null>`case task.kind when 'database' then (task.spec ->> 'sizeMb')::int end`.as("database_size_mb"),
      sql<number>`extract(epoch from now() - task.created_at)::float8 * 1000`.as("waited_ms"),
    ])
    .where("task.reaped_at", "is", null)
    .orderBy("task.epoch", "asc")
    .execute();

/** Tasks of a kind that are to run. */
export const listWantedTasks = (db: Db, ownerId: string, kind: Task["kind"]): Promise<Task[]> =>
  db
    .selectFrom("task")
    .selectAll()
    .where("owner_id", "=", ownerId)
    .where("kind", "=", kind)
    .where("desired", "=", "running")
    .execute();

export const listTasks = (db: Db, ownerId: string): Promise<Task[]> =>
  db.selectFrom("task").selectAll().where("owner_id", "=", ownerId).orderBy("epoch", "asc").execute();
