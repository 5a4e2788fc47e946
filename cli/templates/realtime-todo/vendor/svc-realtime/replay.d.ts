/** An event that was sent, kept for those who come back. */
export interface Kept {
    channel: string;
    frame: Uint8Array;
}
/** The last events, numbered from 1. */
export interface Replay {
    /** Keeps the event with the next number, in place of the oldest where the buffer is full. */
    keep(kept: Kept): void;
    /** The id that the next event gets. */
    nextId(): string;
    /** What was sent after the event `lastEventId`, oldest first; nothing where that is no id of this instance. */
    after(lastEventId: string | null): Kept[];
}
/** @param instanceId hex, which no other instance has: numbers of another say nothing here */
export declare function createReplay(instanceId: string, bufferSize: number): Replay;
