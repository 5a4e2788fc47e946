import type { RealtimeOptions } from "./options.ts";
import { type Realtime } from "./realtime.ts";
export { defaultMaxClients as DEFAULT_MAX_CLIENTS, hardMaxClients as HARD_MAX_CLIENTS, type PublishResult, type RealtimeAdapter, type RealtimeEvent, type RealtimeOptions, } from "./options.ts";
export type { Realtime } from "./realtime.ts";
/** Server-sent events of this process. Throws a RangeError for a heartbeat or throttle that is not above 0. */
export declare const createRealtime: (options?: RealtimeOptions) => Realtime;
