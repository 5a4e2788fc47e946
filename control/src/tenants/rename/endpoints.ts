import { idParams, renameProjectInput, renameProjectReply } from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { requestRename } from "./request.ts";

const rename = endpoint({
  method: "PUT",
  path: "/projects/:id",
  access: { scope: "projects:write" },
  summary: "Rename a project without a gap; done when its slug is the new one. The old hosts redirect for a day.",
  params: idParams,
  body: renameProjectInput,
  status: 202,
  reply: renameProjectReply,
  errors: ["SUSPENDED", "VALIDATION", "SLUG_CONFLICT", "QUOTA_EXCEEDED"],
  handle: ({ clock, db, config }, { caller, params, body, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      const began = await requestRename(tx, project, body.slug, {
        content: config.content,
        now: clock.now(),
      });
      if (began) {
        const detail = { from: project.slug, to: body.slug };
        await recordAudit(tx, { caller, address, action: "project.rename", target: project.id, detail });
      }
      return { queued: true as const, newSlug: body.slug };
    }),
});

export const renameEndpoints = [rename];
