/**
 * The edge without Caddy and without control, as a process that can be killed: serves the table that is on disk, counts, and
 * prints what control would be sent, a line each. What control answers comes in by lines.
 *
 * Run by `testing/killable-edge.ts`; settings are those of a router, by the environment.
 */
import { createInterface } from "node:readline";
import { fromJson, toJsonString } from "@bufbuild/protobuf";
import { AnalyticsAckSchema, AnalyticsSchema, TrafficAckSchema, TrafficBatchSchema } from "@svc/proto/edge";
import { RegistryError } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { pino } from "pino";
import { readConfig } from "../config.ts";
import { startEdge } from "../edge.ts";

const edge = await startEdge(readConfig(process.env), {
  pull: ({ digest }) => Promise.reject(new RegistryError("ARTIFACT_NOT_FOUND", digest)),
  onApplied: () => {},
  clock: systemClock,
  random: systemRandom,
  log: pino({ level: "silent" }),
});
const print = (kind: string, json: string) => process.stdout.write(`${kind} ${json}\n`);
edge.traffic.open((batch) => print("traffic", toJsonString(TrafficBatchSchema, batch)));
edge.analytics?.open((message) => print("analytics", toJsonString(AnalyticsSchema, message)));
await edge.ready;
print("ready", "{}");

for await (const line of createInterface(process.stdin)) {
  const { traffic, analytics } = JSON.parse(line);
  if (traffic !== undefined) edge.traffic.acknowledged(fromJson(TrafficAckSchema, traffic));
  if (analytics !== undefined) edge.analytics?.acknowledged(fromJson(AnalyticsAckSchema, analytics));
}
