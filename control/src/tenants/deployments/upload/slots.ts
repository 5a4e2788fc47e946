import type { IncomingMessage } from "node:http";
import type { Clock } from "@svc/runtime/clock";
import { ApiError } from "../../../http/errors.ts";
import { type Pace, type PaceRules, watchPace } from "./pace.ts";

export interface UploadRules extends PaceRules {
  /** Uploads of one user that may be under way at once in this process. */
  perUserMax: number;
  /** Of everybody: each holds a few MiB, and works for a while. */
  inAllMax: number;
}

const usualRules: UploadRules = {
  perUserMax: 3,
  inAllMax: 32,
  bytesPerSecondMin: 10 * 1024,
  windowMs: 30_000,
  totalMs: 15 * 60_000,
};

/** The uploads that are under way in this process. */
export interface Uploads {
  /** A place for one more, until it is disposed of. Throws RATE_LIMITED or UNAVAILABLE when there is none. */
  take(userId: string): Disposable;
  /** Bounds how long the body of `request` may take to arrive. */
  watch(request: IncomingMessage): Pace;
}

export function createUploads(clock: Clock, changes: Partial<UploadRules> = {}): Uploads {
  const rules = { ...usualRules, ...changes };
  const byUser = new Map<string, number>();
  let inAll = 0;
  return {
    take(userId) {
      const count = byUser.get(userId) ?? 0;
      if (count >= rules.perUserMax) {
        throw new ApiError("RATE_LIMITED", {
          message: `Only ${rules.perUserMax} uploads may be under way at once.`,
          retryAfterSeconds: 10,
          closesConnection: true,
        });
      }
      if (inAll >= rules.inAllMax) {
        throw new ApiError("UNAVAILABLE", {
          message: "Too many uploads are under way. Try again in a moment.",
          retryAfterSeconds: 10,
          closesConnection: true,
        });
      }
      byUser.set(userId, count + 1);
      inAll += 1;
      return {
        [Symbol.dispose]() {
          inAll -= 1;
          const left = (byUser.get(userId) ?? 1) - 1;
          if (left === 0) byUser.delete(userId);
          else byUser.set(userId, left);
        },
      };
    },
    watch: (request) => watchPace(clock, request, rules),
  };
}
