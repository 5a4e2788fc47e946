import type { Machine } from "./machine.ts";
import type { Subscription } from "./subscription.ts";
import { type WireEvent } from "./wire.ts";
/** Bytes that may wait for a client before it is cut off. It comes back with the id of what it had, and gets the rest. */
export declare const maxQueuedBytes: number;
/** What the hub wants of a client's stream, whoever carries it. */
export interface Outlet {
    write(frame: Uint8Array): void;
    /** What was written and has not left the process. */
    queuedBytes(): number;
    /** Ends the stream at once, and frees what waits. */
    cut(): void;
}
/** The clients of one instance, and what each of them gets. */
export interface Hub {
    /** Writes the event to the clients of its channel, each time the same bytes. Throws for data that is no JSON, and sends nothing then. */
    deliver(event: WireEvent): void;
    /** From here on the client gets what it asked for, beginning with what it missed. The answer lets it go. */
    join(outlet: Outlet, asked: Subscription): () => void;
    readonly size: number;
}
export declare function createHub({ heartbeatMs, bufferSize }: {
    heartbeatMs: number;
    bufferSize: number;
}, machine: Machine): Hub;
