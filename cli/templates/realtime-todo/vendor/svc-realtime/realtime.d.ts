import type { IncomingMessage, ServerResponse } from "node:http";
import type { Machine } from "./machine.ts";
import { type PublishResult, type RealtimeOptions } from "./options.ts";
/** Sends events to clients of this process, and by its adapter to those of others. */
export interface Realtime {
    /**
     * Sends an event to the clients of a channel. It is dropped, and never queued, where the channel is not allowed or has had too
     * many. Throws a TypeError for data that cannot be written as JSON; nobody gets it then.
     */
    publish(channel: string, event: {
        event?: string;
        data: unknown;
    }): PublishResult;
    /** Answers a Fetch `Request` with a stream. A promise only with `authorize`. */
    handler(request: Request): Response | Promise<Response>;
    /** Answers a request of Node's `http` with a stream. Writes nothing before `authorize` is done. */
    node(request: IncomingMessage, response: ServerResponse): void;
    /** How many clients are connected. */
    clientCount(): number;
    /** Leaves the adapter; clients stay. Resolves also where that fails. */
    close(): Promise<void>;
}
export declare function assembleRealtime(options: RealtimeOptions, machine: Machine): Realtime;
