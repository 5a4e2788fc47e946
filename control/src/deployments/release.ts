import { randomBytes } from "node:crypto";
import { failureMessage } from "@svc/proto";
import { keys, type RunValue } from "../cluster/keys.ts";
import type { Deployment, Project } from "../db/tables.ts";
import { planOfUser } from "../plans/of-user.ts";
import { setAside } from "../scheduler/limits.ts";
import { type Decision, place } from "../scheduler/placement.ts";
import { listReservations, listSchedulableNodes } from "../scheduler/snapshot.ts";
import { releaseAttemptId } from "../tasks/assignment.ts";
import { limitsOfPlan } from "../tasks/spec.ts";
import { createBell } from "../wake.ts";
import type { DeploymentFacts } from "./facts.ts";
import { cancelRun } from "./runs.ts";
import { insertEvent, inTransaction } from "./store.ts";
import type { DeployWorkerDeps, Effects, ReleaseOutcome } from "./worker.ts";

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
  { db, etcd, fleet, now }: DeployWorkerDeps,
  fail: (at: DeploymentFacts, code: string, message: string, release: ReleaseOutcome) => Promise<void>,
): Effects<ReleaseSteps> {
  const setRun = async (nodeId: string, run: RunValue, modRevision: bigint | null): Promise<boolean> => {
    const key = keys.run(nodeId, run.attemptId);
    const { succeeded } = await etcd.txn({
      guards: [modRevision === null ? { key, compare: "absent" } : { key, compare: "modRevision", value: modRevision }],
      ops: [{ put: { key, value: JSON.stringify(run) } }],
    });
    return succeeded;
  };

  /** Picks a node for attempt `attempt` and records it; null when none has room at this moment, or somebody else did. */
  async function chooseReleaseNode(deployment: Deployment, project: Project, attempt: number): Promise<string | null> {
    const decision = await placeRelease({ db, fleet }, deployment, project);
    if ("refused" in decision) return null;
    const { numUpdatedRows } = await db
      .updateTable("deployment")
      .set({ release_attempt: attempt, release_node_id: decision.nodeId })
      .where("id", "=", deployment.id)
      .where("release_status", "=", "pending")
      .where("release_attempt", "=", attempt - 1)
      .executeTakeFirst();
    return numUpdatedRows === 1n ? decision.nodeId : null;
  }

  return {
    async offerRelease({ attempt }, { deployment, project }) {
      // An attempt belongs to one node for good: the node is in Postgres before the offer is in etcd, so an offer
      // that is repeated after a crash meets its own key and cannot be made to a second node.
      const nodeId =
        deployment.release_attempt === attempt && deployment.release_node_id !== null
          ? deployment.release_node_id
          : await chooseReleaseNode(deployment, project, attempt);
      if (nodeId === null) {
        await createBell().wait(1_000, AbortSignal.timeout(1_000));
        return;
      }
      const attemptId = releaseAttemptId(deployment.id, attempt);
      const run: RunValue = {
        attemptId,
        deploymentId: deployment.id,
        projectId: project.id,
        state: "offered",
        cancel: false,
        acceptedBy: null,
        token: null,
        exitCode: null,
        timedOut: false,
        message: null,
        startedAt: null,
        finishedAt: null,
        changedAt: now().toISOString(),
      };
      if (await setRun(nodeId, run, null)) {
        await insertEvent(db, { deploymentId: deployment.id, phase: "release-offered" });
      }
      await seen(() => fleet.findRun(attemptId) !== null);
    },

    async withdrawRelease({ run, detail }, { releaseNodeId }) {
      const found = fleet.findRun(run.attemptId);
      if (found === null || releaseNodeId === null || found.run.state !== run.state) return;
      // Only an attempt that was never granted can be here, and the guard keeps it so.
      await setRun(
        releaseNodeId,
        { ...run, state: "not_started", message: detail, changedAt: now().toISOString() },
        found.modRevision,
      );
      await seen(() => fleet.findRun(run.attemptId)?.run.state !== run.state);
    },

    async cancelRelease({ run }, { releaseNodeId }) {
      if (releaseNodeId === null) return;
      await cancelRun(etcd, releaseNodeId, run.attemptId, now());
      await seen(() => fleet.findRun(run.attemptId)?.run.cancel !== false);
    },

    async grantRelease({ run }) {
      const found = fleet.findRun(run.attemptId);
      if (found === null || found.run.state !== "accepted") return;
      const granted: RunValue = {
        ...found.run,
        state: "granted",
        token: randomBytes(16).toString("hex"),
        changedAt: now().toISOString(),
      };
      await setRun(found.nodeId, granted, found.modRevision);
      await seen(() => fleet.findRun(run.attemptId)?.run.state !== "accepted");
    },

    async recordRelease({ status, run }, { deployment }) {
      await inTransaction(db, async (tx) => {
        const { numUpdatedRows } = await tx
          .updateTable("deployment")
          .set({
            release_status: status,
            release_started_at: run.startedAt === null ? now() : new Date(run.startedAt),
            ...(status === "succeeded" && {
              release_finished_at: run.finishedAt === null ? now() : new Date(run.finishedAt),
              release_exit_code: run.exitCode,
            }),
          })
          .where("id", "=", deployment.id)
          // A worker that fell behind must not take a finished command back to running, nor tell it twice.
          .where("release_status", "in", status === "running" ? ["pending"] : ["pending", "running"])
          .executeTakeFirst();
        if (numUpdatedRows === 1n) await insertEvent(tx, { deploymentId: deployment.id, phase: `release-${status}` });
      });
    },

    async failRelease({ run, code, message }, at) {
      await fail(at, code, message, {
        release_status: "failed",
        release_started_at: run?.startedAt ? new Date(run.startedAt) : null,
        release_finished_at: now(),
        release_exit_code: run?.exitCode ?? null,
        release_error: (message === "" ? failureMessage(code) : message).slice(0, 500),
      });
    },
  };
}

/** Which node would take the release command at this moment, or how many do not and why. */
export async function placeRelease(
  { db, fleet }: Pick<DeployWorkerDeps, "db" | "fleet">,
  deployment: Deployment,
  project: Project,
): Promise<Decision> {
  const plan = await planOfUser(db, project.owner_id);
  const request = {
    id: deployment.id,
    projectId: project.id,
    deploymentId: deployment.id,
    kind: "serve" as const,
    ...setAside(limitsOfPlan(plan)),
    // The command runs in the image that the site's containers will have; where it is matters little.
    specHash: "",
    diskMb: Math.ceil((deployment.artifact_size ?? 0) / bytesPerMb),
    platform: platformOf(deployment),
    nodeSelector: plan.node_selector,
    hasDockerfile: false,
  };
  const nodes = await listSchedulableNodes(db, fleet);
  return place(nodes, listReservations(fleet), [request]).get(request.id) ?? { refused: {} };
}

const bytesPerMb = 1024 * 1024;

const platformOf = (deployment: { artifact_os: string | null; artifact_architecture: string | null }) =>
  deployment.artifact_os && deployment.artifact_architecture
    ? { os: deployment.artifact_os, architecture: deployment.artifact_architecture }
    : null;

/** Waits until this replica's own view shows its write, so that the next step does not rest on the past. */
async function seen(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 2_000;
  const signal = AbortSignal.timeout(2_000);
  while (!condition() && performance.now() < deadline) await createBell().wait(10, signal);
}
