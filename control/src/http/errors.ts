import { type ErrorCode, errorMessage, errorStatus } from "@svc/proto";
import { Refused } from "../stores/refused.ts";

export interface ApiErrorDetails {
  /** Replaces the catalogue's sentence. Reaches the caller: never holds what only we may know. */
  message?: string;
  /** One of the other statuses that the catalogue allows for the code. */
  status?: number;
  /** Sent as Retry-After. */
  retryAfterSeconds?: number;
  /** The connection is not used again: the rest of the request is not worth reading. */
  closesConnection?: boolean;
  cause?: unknown;
}

/** A refusal in its HTTP form. Thrown where HTTP is known; what is below throws `Refused`, or returns what is expected. */
export class ApiError extends Refused {
  override readonly name = "ApiError";
  readonly status: number;
  readonly retryAfterSeconds: number | null;
  readonly closesConnection: boolean;

  constructor(code: ErrorCode, details: ApiErrorDetails = {}) {
    super(code, details.message ?? errorMessage(code), { cause: details.cause });
    this.status = errorStatus(code, details.status);
    this.retryAfterSeconds = details.retryAfterSeconds ?? null;
    this.closesConnection = details.closesConnection ?? false;
  }
}

/** What is thrown, in its HTTP form; null for what is no refusal. */
export function refusalOf(error: unknown): ApiError | null {
  if (error instanceof ApiError) return error;
  return error instanceof Refused ? new ApiError(error.code, { message: error.message, cause: error.cause }) : null;
}

/** The body of every refusal. */
export const errorEnvelope = (code: ErrorCode, message: string) => ({ ok: false as const, error: { code, message } });
