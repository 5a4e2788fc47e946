import { type RealtimeStatus, subscribe } from "@svc/realtime/client";
import { useRealtime } from "@svc/realtime/react";

const subscription = subscribe({
  url: "/events",
  channels: ["todos"],
  events: ["added"],
  parseJson: true,
  onEvent: ({ event, data, json, channel }) => void [event, data satisfies string, json, channel satisfies string],
  onReconnect: (attempt, delayMs) => attempt + delayMs,
  onError: (error: Event) => void error,
});
const status: RealtimeStatus = subscription.status();
export function Todos() {
  const { connected, status: now } = useRealtime({
    url: "/events",
    channel: "todos",
    events: ["added"],
    onEvent: () => subscription.close(),
    enabled: status === "open",
  });
  return connected ? now : null;
}
