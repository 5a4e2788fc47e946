import { idParams, resumeProjectReply, suspendProjectReply } from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { endpoint } from "../endpoint.ts";
import { waiverOf } from "./quota/waiver.ts";
import { requestResume, suspendProject } from "./request.ts";
import { lockProject } from "./store.ts";

const suspend = endpoint({
  method: "POST",
  path: "/admin/projects/:id/suspend",
  access: "admin",
  summary: "Suspend a project: its hosts show a page, its containers stop, and nothing is deployed to it.",
  params: idParams,
  status: 202,
  reply: suspendProjectReply,
  errors: ["NOT_FOUND", "ALREADY_SUSPENDED"],
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await lockProject(tx, params.id);
      if (project === null) throw new ApiError("NOT_FOUND");
      // One that is being resumed is on its way out, and whoever suspends it now wants it to stay in.
      if (project.suspended_at !== null && project.resuming_at === null)
        throw new ApiError(
          "ALREADY_SUSPENDED",
          project.suspend_reason === "quota" ? { message: suspendedForQuota } : {},
        );
      await suspendProject(tx, project, "admin");
      const target = project.id;
      await recordAudit(tx, { caller, address, action: "project.suspend", target, detail: { reason: "admin" } });
      return { id: project.id, queued: true as const, suspended: true as const };
    }),
});

const suspendedForQuota =
  "The project is already suspended, for its owner's quota, and comes back by itself once there is some left. " +
  "To keep it suspended, resume it and suspend it again.";

const resume = endpoint({
  method: "POST",
  path: "/admin/projects/:id/resume",
  access: "admin",
  summary: "Resume a suspended project: what it served is started, and then it is suspended no more.",
  params: idParams,
  status: 202,
  reply: resumeProjectReply,
  errors: ["NOT_FOUND", "NOT_SUSPENDED"],
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await lockProject(tx, params.id);
      if (project === null) throw new ApiError("NOT_FOUND");
      if (project.suspended_at === null) throw new ApiError("NOT_SUSPENDED");
      const quotaWaivedUntil = await waiverOf(tx, project.owner_id);
      await requestResume(tx, project, { quotaWaivedUntil });
      await recordAudit(tx, {
        caller,
        address,
        action: "project.resume",
        target: project.id,
        detail: {
          reason: project.suspend_reason,
          ...(quotaWaivedUntil !== null && { quotaWaivedUntil: quotaWaivedUntil.toISOString() }),
        },
      });
      return { id: project.id, queued: true as const };
    }),
});

export const suspensionEndpoints = [suspend, resume];
