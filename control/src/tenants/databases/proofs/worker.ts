import type { DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { proofTask } from "../../../fleet/tasks/kinds/proof.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { recordAudit } from "../../../http/audit.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { RestoreProof } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { loginsOf } from "../find-ready.ts";
import { serverResources } from "../limits.ts";
import type { OpenLine } from "../sql/line.ts";
import type { SqlRunner } from "../sql/runner.ts";
import { compareProof } from "./compare.ts";
import { type FoundProof, readProofFacts } from "./facts.ts";
import { nextProofStep, type ProofResult, type ProofStep } from "./steps.ts";
import { lockPendingProof, setVerdict } from "./store.ts";

export interface ProofWorkerDeps {
  clock: Clock;
  db: Db;
  fleet: Pick<Fleet, "observation">;
  secrets: Secrets;
  openLine: OpenLine;
  sql: Pick<SqlRunner, "ask">;
  /** What servers run in. */
  images: Readonly<Record<DatabaseEngine, string>>;
  log: Log;
}

const timeoutSeconds = 4 * 3_600;
/** Of the ten seconds that a request has. */
const countMs = 6_000;

/** Work of kind `restore-proof`: brings a proof to its verdict. Each round reads everything and does one step. */
export function proofWorker(deps: ProofWorkerDeps): WorkHandler {
  const { db, log } = deps;
  return async (item, signal) => {
    const { proofId } = item.payload as { proofId: string };
    while (!signal.aborted) {
      const found = await readProofFacts(deps, proofId);
      if (found === null) return { state: "done" };
      const step = nextProofStep(found.facts);
      if (step.do === "end") return { state: "done" };
      // Restores take from minutes to hours, and nobody waits for one.
      const later = { retryAfterMs: recheckAfterMs(found.facts.ageMs), refund: true };
      if (step.do === "wait") return later;
      try {
        await perform(found, step);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        log.warn({ err: error, proofId, step: step.do }, "a database could not be compared with its copy");
        return { ...later, error: error.message };
      }
    }
    return { retryAfterMs: 0, refund: true };
  };

  function perform(found: FoundProof, step: Exclude<ProofStep, { do: "wait" | "end" }>): Promise<unknown> {
    const { proof } = found;
    switch (step.do) {
      case "look":
        return look(found);
      case "startTask":
        return startTask(found, step.nodeId);
      case "judge":
        return judge(found, step.result);
      case "fail":
        return fail(proof, step.reason);
      case "drop":
        log.info({ proofId: proof.id, copyId: proof.copy_id, why: step.why }, "a proof came to nothing");
        return db.transaction().execute(async (tx) => {
          if ((await lockPendingProof(tx, proof.id)) === null) return;
          await tx.deleteFrom("restore_proof").where("id", "=", proof.id).execute();
          if (found.facts.task !== null) await removeTasks(tx, [found.facts.task.taskId]);
        });
      case "removeTask":
        return removeTasks(db, [step.taskId]);
    }
  }

  async function tables({ found }: FoundProof, isCounted: boolean) {
    const { secrets, openLine, sql } = deps;
    const address = found?.address ?? null;
    if (found === null || address === null) throw new Refused("DATABASE_NOT_READY", "It is on no node.");
    const { branch } = found;
    const target = {
      ...{ projectId: branch.project_id, ownerId: null, engine: branch.engine, ...loginsOf(secrets, branch) },
      openLine: (each: AbortSignal) => openLine(address, each),
    };
    return (await sql.ask(target, "tables", { isCounted, budgetMs: countMs })).given;
  }

  async function look(found: FoundProof): Promise<void> {
    const { tables: source } = await tables(found, true);
    // What was counted was written before this moment, by the server's clock: the copy has to have all of it.
    const { at } = await tables(found, false);
    await db.transaction().execute(async (tx) => {
      if ((await lockPendingProof(tx, found.proof.id)) === null) return;
      await tx
        .updateTable("restore_proof")
        .set({ source: JSON.stringify(source), looked_at: new Date(at) })
        .where("id", "=", found.proof.id)
        .where("source", "is", null)
        .execute();
    });
  }

  function startTask({ proof, found }: FoundProof, nodeId: string): Promise<void> {
    return db.transaction().execute(async (tx) => {
      if (found === null || (await lockPendingProof(tx, proof.id)) === null) return;
      const { branch, plan } = found;
      const known = await tx
        .selectFrom("task")
        .select("id")
        .where("owner_id", "=", proof.copy_id)
        .where("kind", "=", "proof")
        .where("reaped_at", "is", null)
        .limit(1)
        .executeTakeFirst();
      if (known !== undefined) return;
      const { engine, project_id, channel } = branch;
      const work = { proofId: proof.id, databaseId: branch.id, engine, image: deps.images[engine], timeoutSeconds };
      const task = proofTask(work, nodeId, serverResources(engine, plan));
      await insertTask(tx, { id: proof.copy_id, project_id, channel, pr_number: null }, task, { replica: 0 });
    });
  }

  async function judge(found: FoundProof, result: ProofResult): Promise<void> {
    const { proof } = found;
    const { tables: after } = await tables(found, false);
    const { problem, exact, present } = compareProof(proof.source ?? [], after, result);
    if (problem !== null) return fail(proof, problem, result.coveredAt);
    await db.transaction().execute(async (tx) => {
      if ((await lockPendingProof(tx, proof.id)) === null) return;
      await setVerdict(tx, proof, { verdict: "proven", ...result });
      log.info(
        { proofId: proof.id, databaseId: proof.database_id, exact, present },
        "a copy was restored and compared",
      );
    });
  }

  function fail(proof: RestoreProof, problem: string, coveredAt?: string): Promise<void> {
    return db.transaction().execute(async (tx) => {
      if ((await lockPendingProof(tx, proof.id)) === null) return;
      await setVerdict(tx, proof, { verdict: "failed", problem, ...(coveredAt !== undefined && { coveredAt }) });
      const { database_id: databaseId, copy_id: copyId } = proof;
      const branch = await tx
        .selectFrom("database")
        .select("project_id")
        .where("id", "=", databaseId)
        .executeTakeFirst();
      log.error({ proofId: proof.id, databaseId, copyId, problem }, "a copy of a database cannot be restored");
      const detail = { databaseId, copyId, problem };
      const action = "database.proof-failed";
      const target = branch === undefined ? {} : { target: branch.project_id };
      await recordAudit(tx, { caller: null, address: "", action, ...target, detail });
    });
  }
}
