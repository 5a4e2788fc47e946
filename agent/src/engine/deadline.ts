import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { asEngineError, EngineError } from "./errors.ts";

/** Calls that only look or change one object. */
export const quickMs = 15_000;
/** Creating and starting may wait for storage and network set-up. */
export const slowMs = 60_000;

/**
 * Runs one engine call with a deadline. When it passes, the call may still take effect later: that is what
 * `stalled` tells the caller.
 *
 * @param what names the attempt in errors, e.g. "start container"
 */
export async function withDeadline<T>(
  clock: Clock,
  what: string,
  timeoutMs: number,
  call: () => Promise<T>,
): Promise<T> {
  const late = (): never => {
    throw new EngineError("stalled", `${what}: the container engine did not answer in ${timeoutMs / 1000} s`);
  };
  try {
    return await within(clock, timeoutMs, call(), late);
  } catch (cause) {
    throw asEngineError(what, cause);
  }
}
