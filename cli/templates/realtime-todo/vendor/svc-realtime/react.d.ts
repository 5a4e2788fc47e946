import { type RealtimeStatus, type ReceivedEvent } from "./client.ts";
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
export declare function useRealtime({ url, channel, events, onEvent, enabled }: UseRealtimeOptions): {
    connected: boolean;
    status: RealtimeStatus;
};
