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
export declare function subscribe(options: SubscribeOptions): RealtimeSubscription;
