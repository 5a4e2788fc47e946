import { after } from "./machine.ts";

export type RealtimeStatus = "connecting" | "open" | "reconnecting" | "closed";

/** An event as the browser got it. */
export interface ReceivedEvent {
  /** Its type; `message` where it has none. */
  event: string;
  /** What was published: a text as it is, anything else as JSON. */
  data: string;
  /** What was published, with `parseJson`. */
  json?: unknown;
  /** Empty where a stream of other makers does not say it. */
  channel: string;
}

export interface SubscribeOptions {
  /** Of the stream. Relative only where there is a location. */
  url: string;
  /** All, unless given. */
  channels?: readonly string[];
  /** Types of events to listen for besides `message`. */
  events?: readonly string[];
  onEvent: (event: ReceivedEvent) => void;
  onOpen?: () => void;
  onStatus?: (status: RealtimeStatus) => void;
  /** @param attempt 0 for the first since the last opening */
  onReconnect?: (attempt: number, delayMs: number) => void;
  onError?: (error: Event) => void;
  parseJson?: boolean;
  /** How long it waits before the first attempt; each further one waits twice as long. 1,000 unless given. */
  reconnectMs?: number;
  /** 30,000 unless given. */
  maxReconnectMs?: number;
}

export interface RealtimeSubscription {
  close(): void;
  status(): RealtimeStatus;
}

/**
 * Listens to a stream, and comes back to it with the id of the last event that it had, until it is closed. Throws at once for a
 * URL that is none, and where there is no `EventSource`.
 */
export function subscribe(options: SubscribeOptions): RealtimeSubscription {
  const { channels = [], events = [], reconnectMs = 1_000, maxReconnectMs = 30_000 } = options;
  const url = new URL(options.url, (globalThis as { location?: { href: string } }).location?.href);
  const listened = new Set(["message", ...events]);
  let status: RealtimeStatus = "connecting";
  let attempt = 0;
  let source: EventSource;
  let callOff = (): void => {};

  if (channels.length > 0) url.searchParams.set("channels", channels.join());

  const become = (next: RealtimeStatus): void => {
    if (status === next) return;
    status = next;
    options.onStatus?.(next);
  };

  const reconnect = (error: Event): void => {
    // A browser's own reconnect would send the older id of the URL.
    source.close();
    const delayMs = Math.min(reconnectMs * 2 ** Math.min(attempt, 30), maxReconnectMs);
    const nth = attempt;
    attempt += 1;
    callOff = after(delayMs, connect);
    become("reconnecting");
    options.onError?.(error);
    // Any of these may have closed it.
    if (status === "reconnecting") options.onReconnect?.(nth, delayMs);
  };

  /** What a server names `open` or `error` comes as such, with data. */
  const hear = (event: Event): void => {
    if (isMessage(event)) {
      if (event.lastEventId) url.searchParams.set("lastEventId", event.lastEventId);
      if (listened.has(event.type)) options.onEvent(read(event, options.parseJson));
    } else if (event.type === "open") {
      attempt = 0;
      become("open");
      options.onOpen?.();
    } else reconnect(event);
  };

  const connect = (): void => {
    source = new EventSource(url);
    for (const type of new Set(["open", "error", ...listened])) source.addEventListener(type, hear);
  };
  connect();

  return {
    close() {
      callOff();
      source.close();
      become("closed");
    },
    status: () => status,
  };
}

const isMessage = (event: Event): event is MessageEvent => "data" in event;

function read({ type, data: text }: MessageEvent, parseJson = false): ReceivedEvent {
  let event: ReceivedEvent = { event: type, data: text, channel: "" };
  try {
    let json = JSON.parse(text);
    if (typeof json?.channel === "string" && "data" in json) {
      const { channel, data } = json;
      event = { event: type, data: typeof data === "string" ? data : JSON.stringify(data), channel };
      json = data;
    }
    if (parseJson) event.json = json;
  } catch {}
  return event;
}
