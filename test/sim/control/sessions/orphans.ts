import { Verdict_Decision } from "@svc/proto/node";
import type { Work } from "../../kernel/kernel.ts";
import type { TaskRow } from "../../stores/postgres.ts";
import { persist, type ServerStream } from "./session.ts";

/** Tells the agent what becomes of things that it holds and that nobody has placed there. Returns what goes on for now. */
export function* judge(stream: ServerStream, nodeId: string, orphans: readonly string[]): Work<string[]> {
  const { replica } = stream;
  const records = yield* persist(stream, () =>
    replica.transact((tables) => orphans.map((id) => ({ id, record: recordOf(tables.tasks.get(id), nodeId) }))),
  );
  const adopted: string[] = [];
  for (const { id, record } of records) {
    const isOver = replica.world.cores.verdict(record) === "kill";
    stream.send("verdict", {
      placementId: id,
      decision: isOver ? Verdict_Decision.KILL : Verdict_Decision.ADOPT,
    });
    if (!isOver) adopted.push(id);
  }
  return adopted;
}

/** Mirrors `control/src/fleet/agents/orphans.ts`. */
function recordOf(task: TaskRow | undefined, nodeId: string): "unknown" | "gone" | "wanted" {
  if (task === undefined) return "unknown";
  const isElsewhere = task.nodeId !== null && task.nodeId !== nodeId;
  return task.desired === "removed" || task.reapedAt !== null || isElsewhere ? "gone" : "wanted";
}
