import { failureMessage } from "@svc/proto";
import { sleep } from "@svc/runtime/sleep";
import { createAttempts, seen } from "../../fleet/tasks/attempts.ts";
import { cancelRun } from "../../fleet/tasks/runs.ts";
import type { DeployWorkerDeps, Effects, Fail } from "./effects.ts";
import { placeRelease } from "./place-release.ts";
import type { DeployAttempt, DeployRow } from "./rows.ts";

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
export function releaseEffects<Found extends DeployRow>(
  { clock, rows, etcd, fleet }: DeployWorkerDeps<Found>,
  fail: Fail<Found>,
): Effects<ReleaseSteps, Found> {
  const attempts = createAttempts({ clock, txn: (ops, guards) => etcd.txn({ guards, ops }) });

  /** Picks a node for an attempt and records it; null when none has room at this moment, or somebody else did. */
  async function placeAttempt(of: Found, number: number): Promise<DeployAttempt | null> {
    const decision = await placeRelease({ rows, fleet }, of);
    return "refused" in decision ? null : rows.placeAttempt(of, number, decision.nodeId);
  }

  return {
    async offerRelease({ attempt: number }, { of }) {
      // An attempt belongs to one node for good: the node is in Postgres before the offer is in etcd, so an offer
      // that is repeated after a crash meets its own key and cannot be made to a second node.
      const row = of.attempt?.number === number ? of.attempt : await placeAttempt(of, number);
      if (row === null) {
        await sleep(clock, 1_000);
        return;
      }
      if (await attempts.offer(row)) await rows.noteOffer(of);
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

    recordRelease: (step, { of }) => rows.recordRelease(of, step, clock.now()),

    async failRelease({ run, code, message }, at) {
      const error = (message === "" ? failureMessage(code) : message).slice(0, 500);
      const started_at = run?.startedAt ? new Date(run.startedAt) : null;
      const outcome = { started_at, finished_at: clock.now(), exit_code: run?.exitCode ?? null };
      await fail(at, code, message, { release_status: "failed", release_error: error }, outcome);
    },
  };
}
