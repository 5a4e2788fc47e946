import { seriesQuery, seriesReply, statsReply } from "@svc/proto";
import { endpoint } from "../../endpoint.ts";
import { readSeries } from "./series.ts";
import { readStats } from "./stats.ts";

const stats = endpoint({
  method: "GET",
  path: "/admin/stats",
  access: "admin",
  summary: "What the installation holds, does and runs on.",
  reply: statsReply,
  handle: async (context) => ({ stats: await readStats(context) }),
});

const series = endpoint({
  method: "GET",
  path: "/admin/series",
  access: "admin",
  summary: "Sign-ups, visitors' requests and deployments, day by day.",
  query: seriesQuery,
  reply: seriesReply,
  handle: async ({ db }, { query: { days } }) => ({ series: await readSeries(db, days) }),
});

export const statsEndpoints = [stats, series];
