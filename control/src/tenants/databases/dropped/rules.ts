// @pure
import type { DatabaseStatus } from "@svc/proto";
import { type Refusal, refuse } from "../rules.ts";

/** Everything that decides whether a branch that was dropped comes back, and from what. */
export interface UndropFacts {
  /** Of the branch itself, if it is there; null: it is not. */
  status: DatabaseStatus | null;
  /** It was dropped, and is remembered. */
  isRemembered: boolean;
  project: "there" | "suspended" | "deleted";
  /** Of the branch that its channel has by now; null: it has none. */
  successor: DatabaseStatus | null;
  /** Its passwords are still there. */
  hasSecrets: boolean;
  /** Its tenant was made once: before that nobody had anything there. */
  wasReady: boolean;
  /** Its volume is kept, on a machine that was not declared lost. */
  hasVolume: boolean;
  /** Something can be restored from a copy of it. */
  hasCopy: boolean;
}

/** A volume is what it was when the branch was dropped; a copy may lack what was written in the moment before. */
export type UndropFrom = "volume" | "copy";

/** What a branch that was dropped comes back from, or why it does not. Exact while its project is locked. */
export function decideUndrop(facts: UndropFacts): { from: UndropFrom } | { refusal: Refusal } {
  const { status, isRemembered, project, successor, hasSecrets, wasReady, hasVolume, hasCopy } = facts;
  if (status === "dropping") {
    return refuse("DATABASE_NOT_READY", "The database is being dropped. Try again in a moment.");
  }
  if (status !== null) return refuse("CONFLICT", "The database is there: it was not dropped, or is back already.");
  if (!isRemembered) return { refusal: { code: "NOT_FOUND" } };
  if (project === "deleted") return refuse("CONFLICT", "Its project was deleted, and its databases with it.");
  if (successor === "dropping") {
    return refuse("CONFLICT", "The channel has another database, which is being dropped. Try again in a moment.");
  }
  if (successor !== null) {
    return refuse("CONFLICT", "The channel has another database by now. It has to be dropped first.");
  }
  if (!hasVolume && !(hasCopy && wasReady)) {
    return refuse("CONFLICT", "Neither its volume nor a copy of it is left on a machine that can be reached.");
  }
  if (!hasSecrets) return refuse("CONFLICT", "Its passwords were not kept, so that nobody could log in.");
  if (hasVolume) return { from: "volume" };
  return project === "suspended"
    ? refuse("CONFLICT", "It comes back from a copy, for which its project must not be suspended. Resume it first.")
    : { from: "copy" };
}
