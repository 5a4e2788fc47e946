import { failureMessage } from "@svc/proto";
import { sleep } from "@svc/runtime/sleep";
import { createAttempts, seen } from "../../fleet/tasks/attempts.ts";
import { insertEvent } from "../../fleet/tasks/deployment.ts";
import { insertRun, type RunOutcome, setRunOutcome } from "../../fleet/tasks/run-rows.ts";
import { cancelRun } from "../../fleet/tasks/runs.ts";
import type { Deployment, Project, Run } from "../../stores/db/tables.ts";
import { inTransaction } from "../../stores/db/transaction.ts";
import type { DeployWorkerDeps, Effects, ReleaseOutcome } from "./effects.ts";
import type { DeploymentFacts } from "./facts.ts";
import { placeRelease } from "./place-release.ts";

type ReleaseSteps =
  | "offerRelease"
  | "withdrawRelease"
  | "cancelRelease"
  | "grantRelease"
  | "recordRelease"
  | "failRelease";

/**
 * The steps of a release command: offer, accept, grant, start, so that it starts at most once. Everything before
 * the grant may be taken back; nothing after it is ever offered again.
 */
export function releaseEffects(
  { clock, db, etcd, fleet }: DeployWorkerDeps,
  fail: (
    at: DeploymentFacts,
    code: string,
    message: string,
    release: ReleaseOutcome,
    outcome: RunOutcome,
  ) => Promise<void>,
): Effects<ReleaseSteps> {
  const attempts = createAttempts({ clock, txn: (ops, guards) => etcd.txn({ guards, ops }) });

  /** Picks a node for an attempt and records it; null when none has room at this moment, or somebody else did. */
  async function placeAttempt(deployment: Deployment, project: Project, number: number): Promise<Run | null> {
    const decision = await placeRelease({ db, fleet }, deployment, project);
    if ("refused" in decision) return null;
    return inTransaction(db, async (tx) => {
      const isPending = await tx
        .selectFrom("deployment")
        .select("id")
        .where("id", "=", deployment.id)
        .where("release_status", "=", "pending")
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (isPending === undefined) return null;
      const of = { project_id: project.id, owner_kind: "deployment", owner_id: deployment.id } as const;
      return insertRun(tx, { ...of, kind: "release", number, node_id: decision.nodeId });
    });
  }

  return {
    async offerRelease({ attempt }, { deployment, project, attempt: last }) {
      // An attempt belongs to one node for good: the node is in Postgres before the offer is in etcd, so an offer
      // that is repeated after a crash meets its own key and cannot be made to a second node.
      const row = last?.number === attempt ? last : await placeAttempt(deployment, project, attempt);
      if (row === null) {
        await sleep(clock, 1_000);
        return;
      }
      if (await attempts.offer(row)) {
        await insertEvent(db, { deploymentId: deployment.id, phase: "release-offered" });
      }
      await seen(clock, () => fleet.findRun(row.id) !== null);
    },

    async withdrawRelease({ run, detail }, { releaseNodeId }) {
      const found = fleet.findRun(run.attemptId);
      if (found === null || releaseNodeId === null || found.run.state !== run.state) return;
      // Only an attempt that was never granted can be here, and the guard keeps it so.
      await attempts.withdraw({ ...found, nodeId: releaseNodeId, run }, detail);
      await seen(clock, () => fleet.findRun(run.attemptId)?.run.state !== run.state);
    },

    async cancelRelease({ run }, { releaseNodeId }) {
      if (releaseNodeId === null) return;
      await cancelRun(etcd, releaseNodeId, run.attemptId, clock.now());
      await seen(clock, () => fleet.findRun(run.attemptId)?.run.cancel !== false);
    },

    async grantRelease({ run }) {
      const found = fleet.findRun(run.attemptId);
      if (found === null || found.run.state !== "accepted") return;
      await attempts.grant(found);
      await seen(clock, () => fleet.findRun(run.attemptId)?.run.state !== "accepted");
    },

    async recordRelease({ status, run }, { deployment }) {
      await inTransaction(db, async (tx) => {
        const { numUpdatedRows } = await tx
          .updateTable("deployment")
          .set({ release_status: status })
          .where("id", "=", deployment.id)
          // A worker that fell behind must not take a finished command back to running, nor tell it twice.
          .where("release_status", "in", status === "running" ? ["pending"] : ["pending", "running"])
          .executeTakeFirst();
        if (numUpdatedRows !== 1n) return;
        await setRunOutcome(tx, run.attemptId, {
          started_at: run.startedAt === null ? clock.now() : new Date(run.startedAt),
          ...(status === "succeeded" && {
            finished_at: run.finishedAt === null ? clock.now() : new Date(run.finishedAt),
            exit_code: run.exitCode,
          }),
        });
        await insertEvent(tx, { deploymentId: deployment.id, phase: `release-${status}` });
      });
    },

    async failRelease({ run, code, message }, at) {
      const error = (message === "" ? failureMessage(code) : message).slice(0, 500);
      const started_at = run?.startedAt ? new Date(run.startedAt) : null;
      const outcome = { started_at, finished_at: clock.now(), exit_code: run?.exitCode ?? null };
      await fail(at, code, message, { release_status: "failed", release_error: error }, outcome);
    },
  };
}
