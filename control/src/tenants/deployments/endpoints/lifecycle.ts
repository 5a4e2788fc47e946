import { idParams, lifecycleReply } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { refuseSuspended } from "../../projects/suspended.ts";
import { requestLifecycle } from "../lifecycle/request.ts";

const lifecycle = (action: "stop" | "start") =>
  endpoint({
    method: "POST",
    path: `/projects/:id/${action}`,
    access: { scope: "lifecycle" },
    summary: action === "stop" ? "Stop the production deployment." : "Start the stopped production deployment again.",
    params: idParams,
    status: 202,
    reply: lifecycleReply,
    errors: action === "stop" ? ["STOP_UNAVAILABLE"] : ["START_UNAVAILABLE", "SUSPENDED"],
    handle: ({ db }, { caller, params, address }) =>
      db.transaction().execute(async (tx) => {
        const project = await getProject(tx, caller, params.id, { lock: true });
        if (action === "start") refuseSuspended(project);
        const { deploymentId, workId, warnings } = await requestLifecycle(tx, project.id, action);
        await recordAudit(tx, {
          caller,
          address,
          action: `project.${action}`,
          target: project.id,
          detail: { deploymentId },
        });
        return { queued: true as const, deploymentId, jobId: String(workId), ...(warnings && { warnings }) };
      }),
  });

export const stopProject = lifecycle("stop");
export const startProject = lifecycle("start");
