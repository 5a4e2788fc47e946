import { deleteProjectReply, idParams } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { requestTeardown } from "../../projects/teardown/request.ts";

export const removeAnyProject = endpoint({
  method: "DELETE",
  path: "/admin/projects/:id",
  access: "admin",
  summary: "Delete anybody's project with everything that belongs to it.",
  params: idParams,
  reply: deleteProjectReply,
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await tx
        .selectFrom("project")
        .select(["id", "slug", "owner_id"])
        .where("id", "=", params.id)
        .where("deleting_at", "is", null)
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (project === undefined) throw new Refused("NOT_FOUND");
      const { id, slug, owner_id: ownerId } = project;
      await requestTeardown(tx, [id]);
      await recordAudit(tx, { caller, address, action: "project.delete", target: id, detail: { slug, ownerId } });
      return { id };
    }),
});
