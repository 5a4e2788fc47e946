import { limits } from "@svc/proto";
import type { Task } from "../../stores/db/tables.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { hasEnded } from "../cluster/keys.ts";

/** What is known of a task that ends by itself. */
interface OneShot {
  taskId: string;
  /** False: it was asked to go. */
  wanted: boolean;
  state: "waiting" | "running" | "completed" | "failed";
  /** Why it failed, for people; null: it did not, or does not say. */
  problem: string | null;
}

type Seen = ReturnType<Fleet["observation"]>;

/** The task as it stands, and what its node last said of it. */
export function oneShotFacts(task: Task, fleet: Pick<Fleet, "observation">): { facts: OneShot; seen: Seen } {
  const seen = task.node_id === null ? null : fleet.observation(task.node_id, task.id);
  const problem = seen?.failure?.message.slice(0, limits.errorTextBytesMax) ?? null;
  const wanted = task.desired === "running";
  return { facts: { taskId: task.id, wanted, state: stateOf(seen?.observed ?? null), problem }, seen };
}

function stateOf(observed: Parameters<typeof hasEnded>[0] | null): OneShot["state"] {
  if (observed === "completed") return "completed";
  if (observed !== null && hasEnded(observed)) return "failed";
  return observed === "running" ? "running" : "waiting";
}
