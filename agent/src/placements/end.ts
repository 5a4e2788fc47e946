// @pure
import type { Container } from "../engine/engine.ts";
import type { View } from "./view.ts";

/** Whether the container has ended, and was ended for what it wrote: only without it there is room again. */
export const hasOverflowed = ({ container, memory }: View): boolean =>
  container?.state === "exited" && memory.overflowOf === container.id;

/** An engine that was killed itself may not know when something ended. Still it is one end, and not many. */
export const nameOfExit = ({ finishedAt, startedAt }: Pick<Container, "finishedAt" | "startedAt">): string =>
  finishedAt ?? `after ${startedAt}`;

/** A time of the engine's; one that it does not tell, or not well, is `otherwiseMs`. */
export function parseTime(text: string | null, otherwiseMs: number): number {
  const timeMs = text === null ? Number.NaN : Date.parse(text);
  return Number.isNaN(timeMs) ? otherwiseMs : timeMs;
}
