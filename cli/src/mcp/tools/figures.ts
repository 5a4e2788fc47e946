import { figureSpans, metricsReply, metricsSchema, resourcesReply, resourcesSchema } from "@svc/proto";
import { z } from "zod";
import { tool } from "../tool.ts";
import { takes } from "./fields.ts";

/** Of the newest hours or days. */
const pointsShown = 24;

const metrics = tool({
  name: "metrics",
  title: "See traffic and resources",
  description:
    "How often visitors asked, with which statuses, and what the app takes of processor and memory; hours and days are UTC. Totals are of the whole span.",
  effect: "reads",
  input: { span: z.enum(figureSpans).optional().describe("Default: 24h"), channel: takes.channel },
  output: { span: z.string(), metrics: metricsSchema, resources: resourcesSchema },
  async run(call, { span = "24h", channel }) {
    const { id } = await call.target();
    const query = `?span=${span}${channel === undefined ? "" : `&channel=${channel}`}`;
    const [{ metrics: traffic }, { resources }] = await Promise.all([
      call.api.get(`/projects/${id}/metrics${query}`, metricsReply),
      call.api.get(`/projects/${id}/resources${query}`, resourcesReply),
    ]);
    const left = Math.max(traffic.series.length, resources.series.length) - pointsShown;
    return {
      span,
      metrics: { ...traffic, series: traffic.series.slice(-pointsShown) },
      resources: { ...resources, series: resources.series.slice(-pointsShown) },
      ...(left > 0 && { cut: `Series have the newest ${pointsShown} ${traffic.bucketSize}s` }),
    };
  },
});

export const figureTools = [metrics];
