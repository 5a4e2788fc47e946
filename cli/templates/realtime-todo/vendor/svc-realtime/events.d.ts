/** Names of events by channel: `{ todos: ["added", "removed"] }`. */
export type RealtimeEvents = Readonly<Record<string, readonly string[]>>;
/** Keeps the names as they are written, so that server and browser share them with their types. */
export declare const defineRealtimeEvents: <const Definitions extends RealtimeEvents>(definitions: Definitions) => Definitions;
/** The names of a channel's events; none for a channel that was not defined. */
export declare const eventsFor: <Definitions extends RealtimeEvents, Channel extends keyof Definitions & string>(definitions: Definitions, channel: Channel) => Definitions[Channel];
