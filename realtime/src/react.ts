"use client";

import { useEffect, useRef, useState } from "react";
import { type RealtimeStatus, type ReceivedEvent, subscribe } from "./client.ts";

export interface UseRealtimeOptions {
  url: string;
  channel: string;
  /** Types of events to listen for besides `message`. */
  events?: readonly string[];
  /** Gets `json` as well. Another function does not connect anew. */
  onEvent: (event: ReceivedEvent) => void;
  /** False ends the connection. */
  enabled?: boolean;
}

/** Listens to a channel for as long as the component is there. */
export function useRealtime({ url, channel, events = [], onEvent, enabled = true }: UseRealtimeOptions): {
  connected: boolean;
  status: RealtimeStatus;
} {
  const [status, setStatus] = useState<RealtimeStatus>(enabled ? "connecting" : "closed");
  const latest = useRef(onEvent);
  useEffect(() => {
    latest.current = onEvent;
  });

  // Equal lists are often other arrays at each rendering. No name has a line break on the wire.
  const joined = events.join("\n");
  useEffect(() => {
    if (!enabled) return;
    const subscription = subscribe({
      url,
      channels: [channel],
      events: joined.split("\n").filter(Boolean),
      onEvent: (event) => latest.current(event),
      onStatus: setStatus,
      parseJson: true,
    });
    setStatus(subscription.status());
    return () => subscription.close();
  }, [url, channel, enabled, joined]);

  return { connected: status === "open", status };
}
