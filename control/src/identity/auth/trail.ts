import { recordAudit } from "../../http/audit.ts";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { type Allowance, takeAttempt } from "../limits/attempts.ts";

/** Set by us on every request that we hand to better-auth, whatever the client sent under this name. */
export const clientAddressHeader = "x-svc-client-address";

/** What is known of a call to better-auth, inside one of its hooks; null outside of any request. */
export interface AuthCall {
  /** Of the route, as in "/callback/:id". */
  path?: string | undefined;
  headers?: Headers | undefined;
  body?: unknown;
}

interface AuthEvent {
  /** Null when it is not known. */
  userId: string | null;
  action: string;
  target?: string;
  detail?: Record<string, unknown>;
}

export const addressOf = (call: AuthCall | null): string => call?.headers?.get(clientAddressHeader) ?? "";

/** Anybody can fail, and from many addresses: what is noted of it is bounded, for the whole installation together. */
const failures: Allowance = { capacity: 500, secondsPerToken: 6 };
/** What is aimed at one account has a bound of its own, so that failures at no account do not hide it. */
const failuresAtOne: Allowance = { capacity: 50, secondsPerToken: 60 };

export interface Trail {
  note(call: AuthCall | null, event: AuthEvent): Promise<void>;
  /** The same, for what anybody can cause at will. */
  noteFailure(call: AuthCall | null, event: AuthEvent): Promise<void>;
}

/**
 * Puts into the audit what happened inside better-auth, whose transactions we cannot join: right after them. A line
 * that cannot be written is logged; by then nothing can be undone.
 */
export function createTrail(db: Db, log: Log): Trail {
  const note: Trail["note"] = async (call, { userId, ...event }) => {
    try {
      const caller = userId === null ? null : { userId, tokenId: null };
      await recordAudit(db, { caller, address: addressOf(call), ...event });
    } catch (error) {
      log.error({ err: error, action: event.action }, "the audit has no line of this");
    }
  };
  return {
    note,
    async noteFailure(call, event) {
      try {
        const { action, target } = event;
        const wait =
          target === undefined
            ? await takeAttempt(db, { what: "audit", whose: action }, failures)
            : await takeAttempt(db, { what: "audit-target", whose: `${action} ${target}` }, failuresAtOne);
        if (wait === null) await note(call, event);
      } catch (error) {
        log.error({ err: error, action: event.action }, "the audit has no line of this");
      }
    },
  };
}
