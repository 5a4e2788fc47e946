/** What a client asks for when it connects. */
export interface Subscription {
    /** Each once; null for every channel. */
    channels: readonly string[] | null;
    /** The last event that it has, as it was told; null for none. */
    lastEventId: string | null;
}
/**
 * Reads `?channels=a,b` and `?lastEventId=` of a request's URL, whole or only its path and query. The query's id beats that of the
 * header, null where there is none.
 */
export declare function readSubscription(url: string, lastEventIdHeader: string | null): Subscription;
