/** An event as it travels, whatever the publisher left out filled in. */
export interface WireEvent {
    channel: string;
    event: string;
    data: unknown;
}
/** A comment, which clients ignore and which keeps proxies from taking a quiet stream for a dead one. */
export declare const heartbeat = ": heartbeat\n\n";
/** Without CR and LF, which end a line of a stream and would begin one of somebody else's choosing. */
export declare const oneLine: (text: string) => string;
/** The name of an event as it is written; `message` where nothing is left of it. */
export declare const eventName: (name: string | undefined) => string;
/**
 * One event as bytes of a stream: an `id:` line where `id` is given, `event:`, `data:` and an empty line. Data that JSON has no word
 * for is null. Throws a TypeError for data that cannot be written as JSON, such as a BigInt or a circle.
 */
export declare function encodeEvent({ channel, event, data }: WireEvent, id: string | null): string;
