// @pure
import { isOverLimit } from "../limits.ts";

/** What was found on a branch's server, and what is known of it. */
export interface CheckFacts {
  sizeBytes: number;
  /** Nothing is to be written, as the last night's check left it. */
  readOnly: boolean;
  /** Its server was started so. */
  isServerReadOnly: boolean;
  /** A server of it that was takes nothing from the platform either. */
  standsBy: boolean;
  /** What it held as last measured; null before that. */
  knownBytes: number | null;
  /** What the server keeps of the tenant's password; null: it does not know the role. */
  verifier: string | null;
  /** What it should keep; null: that is being changed. */
  expected: string | null;
}

export interface CheckSteps {
  /** See to it that it stays read-only; null: it is not. */
  hold: { hasGrown: boolean } | null;
  /**
   * The server is to have the right password again, and who came in by another is put out: `now`, or `later`, by a server that
   * takes it; null: it has it.
   */
  restorePassword: "now" | "later" | null;
}

/** What is to be done on its server. */
export function checkSteps(facts: CheckFacts): CheckSteps {
  const { sizeBytes, readOnly, isServerReadOnly, knownBytes, verifier, expected } = facts;
  const isOther = expected !== null && verifier !== null && verifier !== expected;
  return {
    hold: readOnly && isServerReadOnly ? { hasGrown: knownBytes !== null && sizeBytes > knownBytes } : null,
    // A role that is not there is made by whoever brings the branch to where it should be.
    restorePassword: isOther ? (isServerReadOnly && facts.standsBy ? "later" : "now") : null,
  };
}

/** Whether a branch is to be read-only from this night on, by the plan that its owner has by now; null: it is as it should be. */
export function readOnlyTonight({
  sizeBytes,
  sizeLimitMb,
  readOnly,
}: Pick<CheckFacts, "sizeBytes" | "readOnly"> & { sizeLimitMb: number }): boolean | null {
  const isOver = isOverLimit(sizeBytes, { db_size_mb: sizeLimitMb });
  return isOver === readOnly ? null : isOver;
}
