import { APIError, isAPIError } from "better-auth/api";
import { hashPassword, verifyPassword } from "better-auth/crypto";
import { ApiError } from "../http/errors.ts";
import type { Auth } from "./auth.ts";

/** One costs some 100 ms of a processor and 16 MB, and anybody may ask for it. */
const atOnce = 2;
/** Some two seconds for the last one. */
const waitingMax = 32;
const retrySeconds = 5;

const message = "Too many people are signing in at once. Try again in a moment.";

const busy = () =>
  new APIError("SERVICE_UNAVAILABLE", { code: "UNAVAILABLE", message }, { "retry-after": `${retrySeconds}` });

/** Whether a call to better-auth found no place in the line. */
export const isBusy = (error: unknown): boolean => isAPIError(error) && error.statusCode === 503;

/** Runs few at once, and refuses what would make the line of those that wait too long. */
export interface Line {
  inTurn<T>(work: () => Promise<T>): Promise<T>;
}

export function createLine(bounds = { atOnce, waitingMax }): Line {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    async inTurn(work) {
      if (running < bounds.atOnce) running += 1;
      else if (waiting.length >= bounds.waitingMax) throw busy();
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        // The place goes straight to the next in line, so the count stays.
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
}

/**
 * The hashing of account passwords, one line for all of it: signing in and up, a new password, and what is hashed only
 * to take as long. Without a place in it the caller is told to come back: an `APIError` with status 503.
 */
export function createHashing(line: Line = createLine()) {
  return {
    hash: (password: string): Promise<string> => line.inTurn(() => hashPassword(password)),
    verify: (given: { hash: string; password: string }): Promise<boolean> => line.inTurn(() => verifyPassword(given)),
  };
}

/** Hashes a password outside of better-auth's calls. Throws UNAVAILABLE. */
export async function hashOf(auth: Auth, password: string): Promise<string> {
  try {
    return await (await auth.$context).password.hash(password);
  } catch (error) {
    throw isBusy(error) ? new ApiError("UNAVAILABLE", { message, retryAfterSeconds: retrySeconds }) : error;
  }
}
