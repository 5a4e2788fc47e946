import { type Caller, findCaller, lookupOf } from "../../http/caller.ts";
import { presentedCredential } from "../../http/credentials.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { AuthCall } from "./trail.ts";

export interface CallSession {
  caller: Caller;
  token: string;
}

/** Finds whose session a call to better-auth is made with, and its token; null for none. */
export type FindCallSession = (call: AuthCall) => Promise<CallSession | null>;

/** @param cookie the name of the one with the session */
export function createFindCallSession(db: Db, secret: string, cookie: string): FindCallSession {
  return async ({ headers }) => {
    const carried = {
      authorization: headers?.get("authorization") ?? undefined,
      cookie: headers?.get("cookie") ?? undefined,
    };
    const credential = presentedCredential(carried, cookie);
    if (typeof credential === "string") return null;
    const token = lookupOf(credential, secret)?.secret;
    const caller = token === undefined ? null : await findCaller(db, credential, secret);
    return token === undefined || caller === null ? null : { caller, token };
  };
}
