import type { IncomingMessage } from "node:http";
import type { Rate } from "./throttle.ts";
/** How many clients are connected at once at most, unless said. */
export declare const defaultMaxClients = 25;
/** How many there are at most, whatever is said. */
export declare const hardMaxClients = 1000;
/** What is published, with its channel: what adapters carry. */
export interface RealtimeEvent {
    channel: string;
    /** The type under which browsers hear of it; `message` where it is absent. */
    event?: string;
    data: unknown;
}
/** What became of an event that was published. */
export type PublishResult = {
    delivered: true;
} | {
    delivered: false;
    reason: DropReason;
};
export type DropReason = "channel_not_allowed" | "throttled";
/** Carries events between instances of an application. */
export interface RealtimeAdapter {
    publish(event: RealtimeEvent): unknown;
    /** Resolves to what ends the subscription. */
    subscribe(onEvent: (event: RealtimeEvent) => void): PromiseLike<() => unknown>;
    /** Called once, after the subscription is over. */
    close?(): unknown;
}
export interface RealtimeOptions {
    /** The channels there are; any, unless given. */
    channels?: readonly string[];
    /** How often a comment is written to every client. 30,000 unless given. */
    heartbeatMs?: number;
    /** Of each channel; 10 at once and then 10 a second unless given, `false` for no limit. What is above it is dropped. */
    throttle?: false | Partial<Rate>;
    /** Called for each event that is dropped, with its type where it had one. */
    onDrop?: (drop: {
        channel: string;
        reason: DropReason;
        event?: string;
    }) => void;
    /** 25 unless it is a number, at most 1,000. Further clients get 503. */
    maxClients?: number;
    /** Carries events to other instances and from there. */
    adapter?: RealtimeAdapter;
    /** Called for whatever the adapter fails at; none of it is thrown. */
    onAdapterError?: (error: unknown, context: {
        op: "publish" | "subscribe";
    }) => void;
    /** How many of the last events are kept for clients that come back: 100 unless given, at most 10,000; `false` for none. */
    replay?: false | {
        bufferSize?: number;
    };
    /**
     * Whether the sender of a request may have a channel. Only `true` lets it in; clients have to name channels then. The request is
     * a Fetch `Request` in `handler` and Node's `IncomingMessage` in `node`.
     */
    authorize?: (channel: string, request: Request | IncomingMessage) => boolean | Promise<boolean>;
}
/** The numbers of the options, each within its bounds. */
export interface Limits {
    /** Null for any. */
    channels: ReadonlySet<string> | null;
    heartbeatMs: number;
    /** Null for no limit. */
    rate: Rate | null;
    maxClients: number;
    /** 0 for no replay. */
    bufferSize: number;
}
/** Throws a RangeError for a heartbeat or throttle that no timer or bucket can keep. */
export declare function readLimits(options: RealtimeOptions): Limits;
