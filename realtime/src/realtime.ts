import type { IncomingMessage, ServerResponse } from "node:http";
import { serveFetch } from "./carriers/fetch.ts";
import { serveNode } from "./carriers/node.ts";
import { createDoor } from "./door.ts";
import { createHub } from "./hub.ts";
import type { Machine } from "./machine.ts";
import {
  type DropReason,
  type PublishResult,
  type RealtimeEvent,
  type RealtimeOptions,
  readLimits,
} from "./options.ts";
import { createRelay } from "./relay.ts";
import { createThrottle } from "./throttle.ts";
import { eventName, oneLine } from "./wire.ts";

/** Sends events to clients of this process, and by its adapter to those of others. */
export interface Realtime {
  /**
   * Sends an event to the clients of a channel. It is dropped, and never queued, where the channel is not allowed or has had too
   * many. Throws a TypeError for data that cannot be written as JSON; nobody gets it then.
   */
  publish(channel: string, event: { event?: string; data: unknown }): PublishResult;
  /** Answers a Fetch `Request` with a stream. A promise only with `authorize`. */
  handler(request: Request): Response | Promise<Response>;
  /** Answers a request of Node's `http` with a stream. Writes nothing before `authorize` is done. */
  node(request: IncomingMessage, response: ServerResponse): void;
  /** How many clients are connected. */
  clientCount(): number;
  /** Leaves the adapter; clients stay. Resolves also where that fails. */
  close(): Promise<void>;
}

export function assembleRealtime(options: RealtimeOptions, machine: Machine): Realtime {
  const limits = readLimits(options);
  const { onDrop } = options;
  const hub = createHub(limits, machine);
  const door = createDoor(hub, limits.maxClients, options.authorize, machine);
  const throttle = limits.rate === null ? null : createThrottle(limits.rate);

  const isAllowed = (channel: string): boolean => limits.channels === null || limits.channels.has(channel);
  const drop = (channel: string, reason: DropReason, event: string | undefined): PublishResult => {
    onDrop?.({ channel, reason, ...(event === undefined ? {} : { event }) });
    return { delivered: false, reason };
  };

  /** From another instance: throttled there, and never sent on. */
  function receive({ channel, event, data }: RealtimeEvent): void {
    const to = oneLine(channel);
    if (isAllowed(to)) hub.deliver({ channel: to, event: eventName(event), data });
    else drop(to, "channel_not_allowed", event);
  }
  const relay =
    options.adapter === undefined ? null : createRelay(options.adapter, receive, options.onAdapterError, machine);

  return {
    publish(channel, { event, data }) {
      const to = oneLine(channel);
      if (!isAllowed(to)) return drop(to, "channel_not_allowed", event);
      if (throttle?.take(to, machine.steadyMs()) === false) return drop(to, "throttled", event);
      const sent = { channel: to, event: eventName(event), data };
      hub.deliver(sent);
      relay?.forward(sent);
      return { delivered: true };
    },
    handler: serveFetch(door),
    node: serveNode(door),
    clientCount: () => hub.size,
    close: async () => relay?.close(),
  };
}
