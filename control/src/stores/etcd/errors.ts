import { status } from "@grpc/grpc-js";

/**
 * What a failed call means to its caller:
 * - `UNAVAILABLE`, `TIMEOUT`: no member answered in time; trying later may help.
 * - `COMPACTED`: the asked revision is no longer in the history.
 * - `LEASE_NOT_FOUND`: the lease expired or was revoked.
 * - `TOO_LARGE`: refused before sending, see the limits of a transaction.
 * - `REFUSED`: etcd understood and said no (wrong request, no space, no permission).
 * - `CLOSED`: this client was closed.
 */
export type EtcdErrorCode =
  | "UNAVAILABLE"
  | "TIMEOUT"
  | "COMPACTED"
  | "LEASE_NOT_FOUND"
  | "TOO_LARGE"
  | "REFUSED"
  | "CLOSED";

/** A call that certainly changed nothing. */
export class EtcdError extends Error {
  override readonly name = "EtcdError";
  readonly code: EtcdErrorCode;
  constructor(code: EtcdErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

/**
 * A write whose result is not known: it may have been applied, or may still be. Read back something
 * that only this write could have put there before trying again.
 */
export class UnknownOutcome extends Error {
  override readonly name = "UnknownOutcome";
}

/** Why a lease's signal aborted. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** A write refused, or a signal aborted, because this process no longer leads. The write changed nothing. */
export class LeadershipLost extends Error {
  override readonly name = "LeadershipLost";
}

/** How a grpc failure is to be taken. */
export interface Failure {
  code: EtcdErrorCode;
  /** The request may have been applied all the same. */
  maybeApplied: boolean;
  /** The member, or the way to it, is at fault: another one may do better, and a read may be repeated. */
  memberFault: boolean;
}

const refused: Failure = { code: "REFUSED", maybeApplied: false, memberFault: false };
const unavailable: Failure = { code: "UNAVAILABLE", maybeApplied: true, memberFault: true };

const failures: Partial<Record<number, Failure>> = {
  [status.DEADLINE_EXCEEDED]: { code: "TIMEOUT", maybeApplied: true, memberFault: true },
  [status.NOT_FOUND]: { code: "LEASE_NOT_FOUND", maybeApplied: false, memberFault: false },
  [status.OUT_OF_RANGE]: { code: "COMPACTED", maybeApplied: false, memberFault: false },
  [status.INVALID_ARGUMENT]: refused,
  [status.ALREADY_EXISTS]: refused,
  [status.FAILED_PRECONDITION]: refused,
  [status.PERMISSION_DENIED]: refused,
  [status.UNAUTHENTICATED]: refused,
  [status.UNIMPLEMENTED]: refused,
  // Out of space, too many requests in the queue (both are said before anything changes), or an answer over the size limit.
  [status.RESOURCE_EXHAUSTED]: refused,
};

/**
 * What grpc status `code` means for a call to etcd. Codes that etcd does not send on purpose count as
 * a broken transport: nothing is known about the request then.
 */
export const failureOf = (code: number): Failure => failures[code] ?? unavailable;
