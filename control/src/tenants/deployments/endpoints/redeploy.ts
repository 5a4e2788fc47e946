import { deploymentActionApplies, idParams, newDeploymentReply } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { endpoint } from "../../endpoint.ts";
import { stoppedWarning } from "../lifecycle/request.ts";
import { getOwnRow } from "../listing.ts";
import type { RedeployAction } from "../redeploy/redeploy.ts";
import { findArtifact, requestRedeploy } from "../redeploy/request.ts";

const redeploy = (action: RedeployAction) =>
  endpoint({
    method: "POST",
    path: `/deployments/:id/${action}`,
    access: { scope: "deploy" },
    summary:
      action === "rollback"
        ? "Deploy a superseded production or dev deployment again, without a build."
        : "Deploy what a running preview runs to production, without a build.",
    params: idParams,
    status: 202,
    reply: newDeploymentReply,
    errors: [
      ...(action === "rollback"
        ? (["ROLLBACK_UNAVAILABLE"] as const)
        : (["PROMOTE_UNAVAILABLE", "RATE_LIMITED"] as const)),
      { code: "ROLLBACK_UNAVAILABLE", status: 400 },
      "SUSPENDED",
      "EMAIL_NOT_VERIFIED",
      "PLAN_FEATURE_UNAVAILABLE",
      "DATABASE_NOT_READY",
      "DATABASE_ENGINE_CONFLICT",
      "QUOTA_EXCEEDED",
      "IDEMPOTENCY_CONFLICT",
    ],
    async handle(
      { clock, random, db, config, secrets, registry, createOnce },
      { caller, params, address, idempotencyKey },
    ) {
      const source = await getOwnRow(db, caller, params.id);
      // Asked before anything is locked, and only where the answer can matter. That it may have become one that
      // matters by then is one more reason to ask again.
      const applies = deploymentActionApplies(action, source.status, source.channel);
      const artifact = applies ? await findArtifact(clock, registry, source) : "unknown";
      const attempt = { caller, idempotencyKey, request: [`POST /deployments/${action}`, source.id], status: 202 };
      return createOnce(attempt, async (tx) => {
        const id = random.uuid();
        const { address: to, url } = await requestRedeploy(tx, { clock, config, secrets }, caller, action, {
          id,
          source,
          artifact,
        });
        await recordAudit(tx, {
          caller,
          address,
          action: `deployment.${action}`,
          target: id,
          detail: { projectId: source.project_id, channel: to.channel, from: source.id },
        });
        const warning = to.channel === "production" ? await stoppedWarning(tx, source.project_id) : null;
        return { deploymentId: id, channel: to.channel, url, ...(warning !== null && { warnings: [warning] }) };
      });
    },
  });

export const rollbackDeployment = redeploy("rollback");
export const promoteDeployment = redeploy("promote");
