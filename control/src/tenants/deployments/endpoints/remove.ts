import { idParams, removeDeploymentReply } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { refuse } from "../create/accept.ts";
import { getOwnRow } from "../listing.ts";
import { requestRemoval } from "../remove/request.ts";
import { removeRefusal } from "../remove/rules.ts";

export const removeDeployment = endpoint({
  method: "DELETE",
  path: "/deployments/:id",
  // Whoever may deploy may not thereby destroy: keys for CI are given `deploy` alone.
  access: { scope: "projects:write" },
  summary: "Remove a preview or dev deployment with its host, or one that is over from the history.",
  params: idParams,
  status: 202,
  reply: removeDeploymentReply,
  errors: ["DELETE_UNAVAILABLE"],
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const { id, project_id: projectId } = await getOwnRow(tx, caller, params.id);
      await getProject(tx, caller, projectId, { lock: true });
      const deployment = await tx
        .selectFrom("deployment")
        .selectAll()
        .where("id", "=", id)
        .forUpdate()
        .executeTakeFirst();
      if (deployment === undefined) throw new ApiError("NOT_FOUND");
      if (deployment.removing_at === null) {
        const refusal = removeRefusal(deployment);
        if (refusal !== null) refuse(refusal);
        await requestRemoval(tx, deployment, "removed by its owner");
        await recordAudit(tx, {
          caller,
          address,
          action: "deployment.delete",
          target: id,
          detail: { projectId, channel: deployment.channel, status: deployment.status },
        });
      }
      return { deploymentId: id, queued: true as const };
    }),
});
