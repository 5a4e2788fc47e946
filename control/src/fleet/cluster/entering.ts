// @pure
import type { EdgeSessionValue } from "./keys.ts";

/**
 * Whether what begins on nodes may be behind entrances: every edge of which there is a session dials them. One that has none
 * is told nothing, and serves what it has; without any edge nobody knows what will come.
 */
export function edgesKnowEntrances(sessions: Iterable<Pick<EdgeSessionValue, "knowsEntrances">>): boolean {
  const all = [...sessions];
  return all.length > 0 && all.every(({ knowsEntrances }) => knowsEntrances);
}
