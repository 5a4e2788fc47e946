import { createRealtime, DEFAULT_MAX_CLIENTS, HARD_MAX_CLIENTS } from "@svc/realtime";
import { subscribe } from "@svc/realtime/client";
import { defineRealtimeEvents, eventsFor } from "@svc/realtime/events";
import { createPostgresAdapter } from "@svc/realtime/postgres";

const realtime = createRealtime();
const { body } = realtime.handler(new Request("http://app.test/?channels=a"));
realtime.publish("a", { data: eventsFor(defineRealtimeEvents({ a: ["x"] }), "a") });
const { value } = await body.getReader().read();
console.log(new TextDecoder().decode(value).split("\n").slice(1, 3).join("|"));
console.log(DEFAULT_MAX_CLIENTS, HARD_MAX_CLIENTS, typeof createPostgresAdapter);
try {
  subscribe({ url: "/events", onEvent() {} });
} catch (error) {
  console.log(error.name);
}
