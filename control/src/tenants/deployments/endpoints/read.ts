import {
  deploymentListQuery,
  deploymentListReply,
  deploymentReply,
  idParams,
  limits,
  logsQuery,
  logsReply,
  timelineReply,
} from "@svc/proto";
import { ApiError } from "../../../http/errors.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { readCursor, writeCursor } from "../cursor.ts";
import { getOwnDeployment, listDeployments } from "../listing.ts";
import { readLog } from "../logs/read.ts";
import { deploymentListView, deploymentView, viewerFor } from "../view.ts";

export const deploymentList = endpoint({
  method: "GET",
  path: "/projects/:id/deployments",
  access: { scope: "projects:read" },
  summary: "Deployments of a project, newest first, a page at a time.",
  params: idParams,
  query: deploymentListQuery,
  reply: deploymentListReply,
  errors: ["VALIDATION"],
  async handle({ db, config, fleet }, { caller, params, query }) {
    const { id } = await getProject(db, caller, params.id);
    const { limit, cursor, ...filter } = query;
    const before = cursor === undefined ? null : readCursor(cursor);
    if (cursor !== undefined && before === null)
      throw new ApiError("VALIDATION", { message: "cursor: is not one that a page ended with" });
    // One more than asked for tells whether there is another page.
    const rows = await listDeployments(db, caller, id, { ...filter, ...(before !== null && { before }) }, limit + 1);
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return {
      deployments: page.map((each) => deploymentListView(each, viewerFor(caller, { config, fleet }))),
      nextCursor: rows.length > limit && last !== undefined ? writeCursor(last.number) : null,
    };
  },
});

export const deploymentDetail = endpoint({
  method: "GET",
  path: "/deployments/:id",
  access: { scope: "projects:read", orCiKey: true },
  summary: "One deployment.",
  params: idParams,
  reply: deploymentReply,
  async handle({ db, config, fleet }, { caller, params }) {
    return {
      deployment: deploymentView(await getOwnDeployment(db, caller, params.id), viewerFor(caller, { config, fleet })),
    };
  },
});

export const deploymentLogs = endpoint({
  method: "GET",
  path: "/deployments/:id/logs",
  access: { scope: "logs:read", orCiKey: true },
  summary: "The build log from a byte offset on, output of the release command included.",
  params: idParams,
  query: logsQuery,
  reply: logsReply,
  async handle({ db }, { caller, params, query }) {
    const { id } = await getOwnDeployment(db, caller, params.id);
    const { text, offset } = await readLog(db, id, query.after, limits.logReplyBytesMax);
    return { log: text, offset };
  },
});

export const deploymentTimeline = endpoint({
  method: "GET",
  path: "/deployments/:id/timeline",
  access: { scope: "logs:read" },
  summary: "What happened to a deployment, oldest first.",
  params: idParams,
  reply: timelineReply,
  async handle({ db }, { caller, params }) {
    const { id } = await getOwnDeployment(db, caller, params.id);
    const events = await db
      .selectFrom("deployment_event")
      .selectAll()
      .where("deployment_id", "=", id)
      .orderBy("id", "desc")
      .limit(limits.timelineEventsMax)
      .execute();
    return {
      timeline: events.reverse().map(({ at, phase, from_status, to_status, detail }) => ({
        at: at.toISOString(),
        phase,
        from: from_status,
        to: to_status,
        detail,
      })),
    };
  },
});
