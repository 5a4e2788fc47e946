import { adminListQuery, adminProjectsReply, deleteProjectReply, idParams } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { requestTeardown } from "../../projects/teardown/request.ts";
import { projectListView } from "../../projects/view.ts";
import { pageOf } from "../place.ts";
import { readProjects } from "./store.ts";

const list = endpoint({
  method: "GET",
  path: "/admin/projects",
  access: "admin",
  summary: "Everybody's projects, newest first, with what their visitors asked for in the last 30 days.",
  query: adminListQuery,
  reply: adminProjectsReply,
  async handle({ db, config }, { query }) {
    const { page, nextCursor } = pageOf(await readProjects(db, query), query.limit);
    return {
      projects: page.map((project) => ({
        ...projectListView(project, config.content),
        ownerId: project.owner_id,
        ownerEmail: project.ownerEmail,
        requests30d: project.requests,
      })),
      nextCursor,
    };
  },
});

const remove = endpoint({
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

export const adminProjectEndpoints = [list, remove];
