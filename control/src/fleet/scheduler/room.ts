// @pure
import { isAboutRoom } from "./filters.ts";

/**
 * Whether what drains in a project is to end for what else of the project no node takes: it has waited for a while, and
 * some node lacks nothing but what runs there.
 */
export const isForRoom = (refused: Readonly<Record<string, number>>, waitedMs: number): boolean =>
  waitedMs >= roomMs && Object.keys(refused).some(isAboutRoom);

/** How long what has no room waits for some before it gets what others of its project take. */
export const roomMs = 10_000;
