import type { Machine } from "./machine.ts";
import { createReplay } from "./replay.ts";
import type { Subscription } from "./subscription.ts";
import { encodeEvent, heartbeat, type WireEvent } from "./wire.ts";

/** Bytes that may wait for a client before it is cut off. It comes back with the id of what it had, and gets the rest. */
export const maxQueuedBytes = 1024 * 1024;

/** What the hub wants of a client's stream, whoever carries it. */
export interface Outlet {
  write(frame: Uint8Array): void;
  /** What was written and has not left the process. */
  queuedBytes(): number;
  /** Ends the stream at once, and frees what waits. */
  cut(): void;
}

interface Client {
  readonly outlet: Outlet;
  readonly channels: readonly string[] | null;
  /** What it got as replay and may still have in its queue: who asked for it is not slow for having it. */
  replayedBytes: number;
  /** Looked at again in a moment. */
  suspect: boolean;
}

/** The clients of one instance, and what each of them gets. */
export interface Hub {
  /** Writes the event to the clients of its channel, each time the same bytes. Throws for data that is no JSON, and sends nothing then. */
  deliver(event: WireEvent): void;
  /** From here on the client gets what it asked for, beginning with what it missed. The answer lets it go. */
  join(outlet: Outlet, asked: Subscription): () => void;
  readonly size: number;
}

export function createHub(
  { heartbeatMs, bufferSize }: { heartbeatMs: number; bufferSize: number },
  machine: Machine,
): Hub {
  const encoder = new TextEncoder();
  const beat = encoder.encode(heartbeat);
  const replay = bufferSize === 0 ? null : createReplay(machine.randomHex(8), bufferSize);
  const clients = new Set<Client>();
  /** Of those that want every channel. */
  const everything = new Set<Client>();
  const byChannel = new Map<string, Set<Client>>();
  let stopBeating = (): void => {};

  const leave = (client: Client): void => {
    if (!clients.delete(client)) return;
    everything.delete(client);
    for (const channel of client.channels ?? []) {
      const others = byChannel.get(channel);
      others?.delete(client);
      if (others?.size === 0) byChannel.delete(channel);
    }
    if (clients.size === 0) stopBeating();
  };

  const cut = (client: Client): void => {
    leave(client);
    client.outlet.cut();
  };

  const isSlow = (client: Client): boolean => {
    const queued = client.outlet.queuedBytes();
    if (queued <= maxQueuedBytes) client.replayedBytes = 0;
    return queued > maxQueuedBytes + client.replayedBytes;
  };

  /** Within one turn of the event loop everything queues, also for the fastest: a client is judged after it. */
  const judgeSoon = (client: Client): void => {
    client.suspect = true;
    machine.soon(() => {
      client.suspect = false;
      if (clients.has(client) && isSlow(client)) cut(client);
    });
  };

  const send = (client: Client, frame: Uint8Array): void => {
    try {
      client.outlet.write(frame);
      if (!client.suspect && isSlow(client)) judgeSoon(client);
    } catch {
      // Its stream ended without a word: the others get their event all the same.
      leave(client);
    }
  };

  const sendTo = (some: Iterable<Client>, frame: Uint8Array): void => {
    for (const client of some) send(client, frame);
  };

  const missedBy = ({ channels, lastEventId }: Subscription): Uint8Array[] =>
    (replay?.after(lastEventId) ?? [])
      .filter(({ channel }) => channels === null || channels.includes(channel))
      .map(({ frame }) => frame);

  const index = (client: Client): void => {
    clients.add(client);
    if (client.channels === null) everything.add(client);
    for (const channel of client.channels ?? []) {
      const others = byChannel.get(channel) ?? new Set();
      byChannel.set(channel, others.add(client));
    }
  };

  return {
    deliver(event) {
      const frame = encoder.encode(encodeEvent(event, replay?.nextId() ?? null));
      replay?.keep({ channel: event.channel, frame });
      sendTo(byChannel.get(event.channel) ?? [], frame);
      sendTo(everything, frame);
    },

    // Replay and subscription in one step: an event that is published in between would be lost or come twice.
    join(outlet, asked) {
      const client: Client = { outlet, channels: asked.channels, replayedBytes: 0, suspect: false };
      for (const frame of missedBy(asked)) {
        outlet.write(frame);
        client.replayedBytes += frame.byteLength;
      }
      if (clients.size === 0) stopBeating = machine.every(heartbeatMs, () => sendTo(clients, beat));
      index(client);
      return () => leave(client);
    },

    get size() {
      return clients.size;
    },
  };
}
