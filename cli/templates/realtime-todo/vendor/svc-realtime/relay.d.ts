import type { Machine } from "./machine.ts";
import type { RealtimeAdapter, RealtimeEvent, RealtimeOptions } from "./options.ts";
/** The way of events to other instances and from there. Nothing of it throws or rejects. */
export interface Relay {
    forward(event: RealtimeEvent): void;
    close(): Promise<void>;
}
export declare function createRelay(adapter: RealtimeAdapter, onEvent: (event: RealtimeEvent) => void, onAdapterError: RealtimeOptions["onAdapterError"], machine: Machine): Relay;
