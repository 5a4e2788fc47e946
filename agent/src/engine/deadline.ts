import { asEngineError, EngineError } from "./errors.ts";

/** Calls that only look or change one object. */
export const QUICK_MS = 15_000;
/** Creating and starting may wait for storage and network set-up. */
export const SLOW_MS = 60_000;

/**
 * Runs one engine call with a deadline. When it passes, the call may still take effect later: that is what
 * `stalled` tells the caller.
 *
 * @param what names the attempt in errors, e.g. "start container"
 */
export async function withDeadline<T>(what: string, timeoutMs: number, call: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new EngineError("stalled", `${what}: the container engine did not answer in ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([call(), late]);
  } catch (cause) {
    throw asEngineError(what, cause);
  } finally {
    clearTimeout(timer);
  }
}
