import type { IncomingMessage } from "node:http";
import { type Clock, every } from "@svc/runtime/clock";
import { ApiError } from "../../../http/errors.ts";

/** How an upload has to arrive. */
export interface PaceRules {
  /** On average over `windowMs`. */
  bytesPerSecondMin: number;
  windowMs: number;
  /** From its beginning to its last byte. */
  totalMs: number;
}

/** Aborted with an ApiError once the upload breaks the rules. Ends by itself when the request has arrived. */
export interface Pace extends Disposable {
  signal: AbortSignal;
}

const samplesPerWindow = 10;

/**
 * Whether bytes arrive too slowly, asked once per sample. `isWaiting` is false while nobody reads, because what was
 * read before is still being worked on: then nothing can arrive, and the client is given a fresh window after it.
 */
export function createPaceMeter({ bytesPerSecondMin, windowMs }: Omit<PaceRules, "totalMs">) {
  const bytesMin = (bytesPerSecondMin * windowMs) / 1000;
  let seen: number[] = [];
  return (bytesSoFar: number, isWaiting: boolean): boolean => {
    if (!isWaiting) {
      seen = [];
      return false;
    }
    seen = [...seen, bytesSoFar].slice(-(samplesPerWindow + 1));
    return seen.length > samplesPerWindow && bytesSoFar - (seen[0] ?? 0) < bytesMin;
  };
}

/** Watches the body of `request` while it arrives. */
export function watchPace(clock: Clock, request: IncomingMessage, rules: PaceRules): Pace {
  const broken = new AbortController();
  const isTooSlow = createPaceMeter(rules);
  const stop = (): void => {
    sampling[Symbol.dispose]();
    ending[Symbol.dispose]();
  };
  const fail = (message: string): void => {
    stop();
    broken.abort(new ApiError("BAD_REQUEST", { status: 408, message, closesConnection: true }));
  };
  const sample = (): void => {
    if (request.complete) stop();
    else if (isTooSlow(request.socket.bytesRead, request.readableFlowing === true))
      fail(
        `The upload arrives with less than ${rules.bytesPerSecondMin} bytes per second. Try again on a better line.`,
      );
  };
  const late = (): void => {
    if (request.complete) stop();
    else fail(`The upload took longer than ${Math.round(rules.totalMs / 1000)} seconds.`);
  };
  const sampling = every(clock, rules.windowMs / samplesPerWindow, sample);
  const ending = clock.after(rules.totalMs, late).unref();
  return { signal: broken.signal, [Symbol.dispose]: stop };
}
