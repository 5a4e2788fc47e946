// @pure
import type { DatabaseFailureCode } from "@svc/proto";

/**
 * Codes that the entry point of database images (deploy/database/entry.sh) ends with before there is a server.
 */
const entryCodes: Readonly<Record<number, DatabaseFailureCode>> = {
  75: "DATABASE_HELD",
  76: "DATABASE_VERSION_MISMATCH",
  77: "DATABASE_DATA_MISSING",
  78: "DATABASE_SPEC_INVALID",
  79: "DATABASE_COPY_MISSING",
  80: "DATABASE_COPY_UNCOVERED",
  81: "DATABASE_RESTORE_FAILED",
};

/** Why there was no server at all; null when there was one, or nobody knows. */
export const entryFailure = (exitCode: number): DatabaseFailureCode | null => entryCodes[exitCode] ?? null;

/** Whether a later start may find things changed: whoever holds the data ends at some time, and the others need a person. */
export const isWorthAnotherStart = (failure: DatabaseFailureCode): boolean => failure === "DATABASE_HELD";
