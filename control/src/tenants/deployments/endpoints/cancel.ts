import { cancelDeploymentReply, deploymentActionApplies, idParams } from "@svc/proto";
import { insertEvent } from "../../../fleet/tasks/deployment.ts";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import { endpoint } from "../../endpoint.ts";
import { getOwnRow } from "../listing.ts";
import { canceledError, moveDeployment } from "../store.ts";

/** One that nobody works on yet is over at once; of any other the worker ends what runs, and then says so. */
export const cancelDeployment = endpoint({
  method: "POST",
  path: "/deployments/:id/cancel",
  access: { scope: "deploy" },
  summary: "End a deployment that is on its way. What serves goes on serving.",
  params: idParams,
  status: 202,
  reply: cancelDeploymentReply,
  errors: ["CANCEL_UNAVAILABLE"],
  handle: ({ clock, db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const { id } = await getOwnRow(tx, caller, params.id);
      const { status, channel, cancel_requested_at } = await tx
        .selectFrom("deployment")
        .select(["status", "channel", "cancel_requested_at"])
        .where("id", "=", id)
        .forUpdate()
        .executeTakeFirstOrThrow();
      if (!deploymentActionApplies("cancel", status, channel))
        throw new ApiError("CANCEL_UNAVAILABLE", {
          message: `The deployment is ${status}; there is nothing to cancel.`,
        });
      if (cancel_requested_at !== null) return { deploymentId: id, queued: true as const };
      await tx.updateTable("deployment").set({ cancel_requested_at: clock.now() }).where("id", "=", id).execute();
      await insertEvent(tx, { deploymentId: id, phase: "cancel-requested" });
      const move = { from: "queued" as const, to: "canceled" as const, phase: "canceled", detail: "as requested" };
      if (await moveDeployment(tx, id, move, { finished_at: clock.now(), error: canceledError(move.detail) })) {
        await tx
          .updateTable("deployment")
          .set({ release_status: "skipped", release_skipped_reason: "the deployment was canceled before it" })
          .where("id", "=", id)
          .where("release_status", "=", "pending")
          .execute();
      }
      await recordAudit(tx, { caller, address, action: "deployment.cancel", target: id });
      return { deploymentId: id, queued: true as const };
    }),
});
