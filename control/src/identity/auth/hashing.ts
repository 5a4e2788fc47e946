import { createLimiter, LimiterFull } from "@svc/runtime/limiter";
import { hashPassword, verifyPassword } from "better-auth/crypto";
import { busy } from "./refusals.ts";

/** One costs some 100 ms of a processor and 16 MB, and anybody may ask for it. */
const atOnce = 2;
/** Some two seconds for the last one. */
const waitingMax = 32;

/** Runs few at once, and refuses what would make the line of those that wait too long. */
export interface Line {
  inTurn<T>(work: () => Promise<T>): Promise<T>;
}

export function createLine(bounds = { atOnce, waitingMax }): Line {
  const inTurn = createLimiter({ total: bounds.atOnce }, { total: bounds.waitingMax });
  return {
    async inTurn(work) {
      try {
        return await inTurn(work);
      } catch (error) {
        throw error instanceof LimiterFull ? busy() : error;
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
