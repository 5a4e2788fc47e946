// @pure
import { oneLine } from "./wire.ts";

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
export function readSubscription(url: string, lastEventIdHeader: string | null): Subscription {
  const query = new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?") + 1) : "");
  const named = query.getAll("channels").flatMap((value) => value.split(",").map(oneLine).filter(Boolean));
  const lastEventId = query.get("lastEventId") ?? lastEventIdHeader;
  return {
    channels: named.length === 0 ? null : [...new Set(named)],
    lastEventId: lastEventId === null ? null : oneLine(lastEventId),
  };
}
