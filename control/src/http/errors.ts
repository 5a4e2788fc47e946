import { type ErrorCode, errorMessage, errorStatus } from "@svc/proto";

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

/** An outcome that the caller of the HTTP API is told. Thrown at the edge only; inside, expected outcomes are values. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryAfterSeconds: number | null;
  readonly closesConnection: boolean;

  constructor(code: ErrorCode, details: ApiErrorDetails = {}) {
    super(details.message ?? errorMessage(code), { cause: details.cause });
    this.code = code;
    this.status = errorStatus(code, details.status);
    this.retryAfterSeconds = details.retryAfterSeconds ?? null;
    this.closesConnection = details.closesConnection ?? false;
  }
}

/** The body of every refusal. */
export const errorEnvelope = (code: ErrorCode, message: string) => ({ ok: false as const, error: { code, message } });
