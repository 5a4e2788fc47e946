import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { hasEnded } from "../../../fleet/cluster/keys.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { RestoreProof, Task } from "../../../stores/db/tables.ts";
import { type FoundBranch, readBranchFacts } from "../facts.ts";
import type { ProofFacts, ProofTaskFacts } from "./steps.ts";

export interface FoundProof {
  proof: RestoreProof;
  facts: ProofFacts;
  /** Null: it is no more. */
  found: FoundBranch | null;
}

/** Everything that decides a proof's next step, read afresh; null when it is no more. */
export async function readProofFacts(
  { db, fleet }: { db: Db; fleet: Pick<Fleet, "observation"> },
  id: string,
): Promise<FoundProof | null> {
  const row = await db
    .selectFrom("restore_proof")
    .leftJoin("database_copy", "database_copy.id", "restore_proof.copy_id")
    .leftJoin("node", "node.id", "database_copy.node_id")
    .selectAll("restore_proof")
    .select([
      sql<number>`extract(epoch from clock_timestamp() - restore_proof.created_at)::float8 * 1000`.as("age_ms"),
      sql<string | null>`case when database_copy.state <> 'ended' and node.lifecycle = 'active' then node.id end`.as(
        "at",
      ),
      sql<boolean>`coalesce(database_copy.covered_at >= restore_proof.looked_at, false)`.as("covers_source"),
      sql<Date>`clock_timestamp()`.as("now"),
    ])
    .where("restore_proof.id", "=", id)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { age_ms, at, covers_source, now, ...proof } = row;
  const [found, task] = await Promise.all([readBranchFacts({ db, fleet }, proof.database_id), findTask(db, proof)]);
  const told = task && taskFacts(task, fleet);
  return {
    ...{ proof, found },
    facts: {
      ...{ verdict: proof.verdict, ageMs: age_ms, nodeId: found === null ? null : at, task: told },
      isServing: isServing(found),
      hasSource: proof.source !== null,
      coversSource: covers_source,
      restoredAgoMs: told?.result ? now.getTime() - Date.parse(told.result.coveredAt) : null,
    },
  };
}

const isServing = (found: FoundBranch | null): boolean =>
  found?.branch.status === "ready" && found.facts.servers.some(({ wanted, state }) => wanted && state === "serving");

const findTask = async (db: Db, { id, copy_id }: RestoreProof): Promise<Task | null> =>
  (await db
    .selectFrom("task")
    .selectAll()
    .where("owner_id", "=", copy_id)
    .where("kind", "=", "proof")
    .where(sql<boolean>`spec ->> 'proofId' = ${id}`)
    .orderBy("epoch", "desc")
    .limit(1)
    .executeTakeFirst()) ?? null;

function taskFacts(task: Task, fleet: Pick<Fleet, "observation">): ProofTaskFacts {
  const seen = task.node_id === null ? null : fleet.observation(task.node_id, task.id);
  const observed = seen?.observed ?? null;
  const isOver = observed !== null && hasEnded(observed);
  return {
    ...{ taskId: task.id, wanted: task.desired === "running", problem: seen?.failure?.message ?? null },
    state: observed === "completed" ? "completed" : isOver ? "failed" : observed === "running" ? "running" : "waiting",
    result: seen?.proof ?? null,
  };
}
