// @pure
import { isOverLimit } from "../limits.ts";

/** What was found on a branch's server, and what is known of it. */
export interface CheckFacts {
  sizeBytes: number;
  /** What its owner may store, by the plan that is theirs now. */
  sizeLimitMb: number;
  /** Nothing is to be written, as the last night's check left it. */
  readOnly: boolean;
  /** Its server was started so. */
  isServerReadOnly: boolean;
  /** A server of it that was takes nothing from the platform either. */
  standsBy: boolean;
  /** What it held as last measured; null before that. */
  knownBytes: number | null;
  /** It has not been looked at since the night began. */
  isNightly: boolean;
  /** What the server keeps of the tenant's password; null: it does not know the role. */
  verifier: string | null;
  /** What it should keep; null: that is being changed. */
  expected: string | null;
}

export interface CheckSteps {
  /** Add a sample to its history. */
  sample: boolean;
  /** Whether it is to be read-only from now on; null: it is as it should be. */
  readOnly: boolean | null;
  /** See to it that it stays read-only; null: it is not. */
  hold: { hasGrown: boolean } | null;
  /**
   * The server is to have the right password again, and who came in by another is put out: `now`, or `later`, by a server that
   * takes it; null: it has it.
   */
  restorePassword: "now" | "later" | null;
}

/** What is to be done. Only nights decide about writing, so that nobody's app is stopped in the middle of the day. */
export function checkSteps(facts: CheckFacts): CheckSteps {
  const { sizeBytes, sizeLimitMb, readOnly, isServerReadOnly, knownBytes, isNightly, verifier, expected } = facts;
  const isOther = expected !== null && verifier !== null && verifier !== expected;
  const isOver = isOverLimit(sizeBytes, { db_size_mb: sizeLimitMb });
  return {
    sample: isNightly,
    readOnly: isNightly && isOver !== readOnly ? isOver : null,
    hold: readOnly && isServerReadOnly ? { hasGrown: knownBytes !== null && sizeBytes > knownBytes } : null,
    // A role that is not there is made by whoever brings the branch to where it should be.
    restorePassword: isOther ? (isServerReadOnly && facts.standsBy ? "later" : "now") : null,
  };
}
