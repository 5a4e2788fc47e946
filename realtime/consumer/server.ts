import { createServer } from "node:http";
import {
  createRealtime,
  type PublishResult,
  type Realtime,
  type RealtimeAdapter,
  type RealtimeEvent,
  type RealtimeOptions,
} from "@svc/realtime";
import { defineRealtimeEvents, eventsFor } from "@svc/realtime/events";
import { createPostgresAdapter } from "@svc/realtime/postgres";
import postgres from "postgres";
export const events = defineRealtimeEvents({ todos: ["added", "removed"] });
const names: readonly ["added", "removed"] = eventsFor(events, "todos");
// @ts-expect-error no such channel
eventsFor(events, "todo");
const adapter: RealtimeAdapter = createPostgresAdapter({
  sql: postgres(),
  onError: ({ code }) => console.log(code satisfies string),
});
const options: RealtimeOptions = {
  channels: Object.keys(events),
  maxClients: Number(process.env["SVC_MAX_SSE_CONNECTIONS"]),
  adapter,
  onAdapterError: (error, { op }) => console.error(op satisfies "publish" | "subscribe", error),
  authorize: async (channel, request) =>
    channel === "todos" &&
    (request instanceof Request ? request.headers.get("cookie") : request.headers.cookie) !== null,
};
const realtime: Realtime = createRealtime(options);
createServer((request, response) => realtime.node(request, response)).listen(0);
const answer = (request: Request): Response | Promise<Response> => realtime.handler(request);
const result: PublishResult = realtime.publish("todos", { event: names[0], data: 1 });
if (!result.delivered) console.log(result.reason satisfies "channel_not_allowed" | "throttled");
const own: RealtimeAdapter = {
  async publish(event: RealtimeEvent) {
    void event;
  },
  async subscribe(onEvent) {
    onEvent({ channel: "a", data: 1 });
    return () => {};
  },
};
createRealtime({
  adapter: own,
  throttle: { maxTokens: 5 },
  replay: false,
  onDrop: ({ channel, reason, event }) => void [channel, reason, event],
});
await realtime.close();

export { answer as GET };
