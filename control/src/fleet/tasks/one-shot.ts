import { limits } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Task } from "../../stores/db/tables.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { hasEnded } from "../cluster/keys.ts";

/** What is known of a task that ends by itself. */
export interface OneShot {
  taskId: string;
  /** False: it was asked to go. */
  wanted: boolean;
  state: "waiting" | "running" | "completed" | "failed";
  /** Why it failed, for people; null: it did not, or does not say. */
  problem: string | null;
}

/** What is written down of such a task. */
export type OneShotTask = Pick<Task, "id" | "desired" | "node_id">;

type Seen = ReturnType<Fleet["observation"]>;

/** The task as it stands, and what its node last said of it. */
export function oneShotFacts(task: OneShotTask, fleet: Pick<Fleet, "observation">): { facts: OneShot; seen: Seen } {
  const seen = task.node_id === null ? null : fleet.observation(task.node_id, task.id);
  const problem = seen?.failure?.message.slice(0, limits.errorTextBytesMax) ?? null;
  const wanted = task.desired === "running";
  return { facts: { taskId: task.id, wanted, state: stateOf(seen?.observed ?? null), problem }, seen };
}

/** The newest task that was made for an owner whose tasks end by themselves; null before there was one. */
export const findOneShotTask = async (db: Db, ownerId: string): Promise<OneShotTask | null> =>
  (await db
    .selectFrom("task")
    .select(["id", "desired", "node_id"])
    .where("owner_id", "=", ownerId)
    .orderBy("epoch", "desc")
    .limit(1)
    .executeTakeFirst()) ?? null;

/** The same with what is known of it. */
export async function findOneShot(
  db: Db,
  fleet: Pick<Fleet, "observation">,
  ownerId: string,
): Promise<{ facts: OneShot; seen: Seen } | null> {
  const task = await findOneShotTask(db, ownerId);
  return task && oneShotFacts(task, fleet);
}

function stateOf(observed: Parameters<typeof hasEnded>[0] | null): OneShot["state"] {
  if (observed === "completed") return "completed";
  if (observed !== null && hasEnded(observed)) return "failed";
  return observed === "running" ? "running" : "waiting";
}
