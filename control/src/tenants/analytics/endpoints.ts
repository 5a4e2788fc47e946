import { analyticsQuery, analyticsReply, idParams } from "@svc/proto";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { analyticsOf, readingOf } from "./rules.ts";
import { readAnalytics } from "./store.ts";

const read = endpoint({
  method: "GET",
  path: "/projects/:id/analytics",
  access: { scope: "metrics:read" },
  summary: "What visitors of a channel looked at, production unless named, and nearly how many they were each day.",
  params: idParams,
  query: analyticsQuery,
  reply: analyticsReply,
  async handle({ db, clock }, { caller, params, query }) {
    const { id: projectId } = await getProject(db, caller, params.id);
    const { channel, span } = query;
    const { data, visitors } = await readAnalytics(db, { projectId, channel }, readingOf(span, clock.now()));
    return { analytics: analyticsOf({ span, channel }, data, visitors) };
  },
});

export const analyticsEndpoints = [read];
