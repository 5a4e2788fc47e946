// @pure

/** Names of events by channel: `{ todos: ["added", "removed"] }`. */
export type RealtimeEvents = Readonly<Record<string, readonly string[]>>;

/** Keeps the names as they are written, so that server and browser share them with their types. */
export const defineRealtimeEvents = <const Definitions extends RealtimeEvents>(definitions: Definitions): Definitions =>
  definitions;

/** The names of a channel's events; none for a channel that was not defined. */
export const eventsFor = <Definitions extends RealtimeEvents, Channel extends keyof Definitions & string>(
  definitions: Definitions,
  channel: Channel,
): Definitions[Channel] =>
  // What every object has (`constructor`, say) is no channel.
  Object.hasOwn(definitions, channel) ? definitions[channel] : ([] as readonly string[] as Definitions[Channel]);
