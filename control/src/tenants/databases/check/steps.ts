// @pure
import type { DatabaseEngine } from "@svc/proto";
import { isOverLimit } from "../limits.ts";

/** What was found on a branch's server, and what is known of it. */
export interface CheckFacts {
  engine: DatabaseEngine;
  sizeBytes: number;
  /** What its owner may store, by the plan that is theirs now. */
  sizeLimitMb: number;
  /** Nothing is written, as the last night's check left it. */
  readOnly: boolean;
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
  /** Give the server the right password again, and put out who came in by another. */
  restorePassword: boolean;
}

/**
 * What is to be done. Only nights decide about writing, so that nobody's app is stopped in the middle of the day. A server of
 * MariaDB forgets with each start that nothing is to be written: it is told again.
 */
export function checkSteps(facts: CheckFacts): CheckSteps {
  const { engine, sizeBytes, sizeLimitMb, readOnly, isNightly, verifier, expected } = facts;
  const isOver = isOverLimit(sizeBytes, { db_size_mb: sizeLimitMb });
  const isDifferent = isOver !== readOnly || (isOver && engine === "mariadb");
  return {
    sample: isNightly,
    readOnly: isNightly && isDifferent ? isOver : null,
    // A role that is not there is made by whoever brings the branch to where it should be.
    restorePassword: expected !== null && verifier !== null && verifier !== expected,
  };
}
