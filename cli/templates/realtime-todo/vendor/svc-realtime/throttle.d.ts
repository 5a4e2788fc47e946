/** A token bucket: `maxTokens` at once, and `refillTokens` more every `refillIntervalMs`. */
export interface Rate {
    maxTokens: number;
    refillIntervalMs: number;
    refillTokens: number;
}
/** A bucket for each channel. */
export interface Throttle {
    /** Takes a token of the channel's; false when none is left at `nowMs` (of a clock that does not go back). */
    take(channel: string, nowMs: number): boolean;
    /** Channels that are remembered now. */
    readonly size: number;
}
/**
 * Names of channels are the application's, and may be as many as its users: a bucket that is full again is forgotten, which changes
 * nothing.
 */
export declare function createThrottle({ maxTokens, refillIntervalMs, refillTokens }: Rate): Throttle;
