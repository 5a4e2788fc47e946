import { type ServiceError, status } from "@grpc/grpc-js";

/** A call that ends with a status the peer understands. The message is for its log and holds nothing secret. */
export class LinkError extends Error {
  override readonly name = "LinkError";
  readonly code: LinkErrorCode;
  constructor(code: LinkErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

export type LinkErrorCode = keyof typeof codes;

const codes = {
  UNAUTHENTICATED: status.UNAUTHENTICATED,
  PERMISSION_DENIED: status.PERMISSION_DENIED,
  INVALID_ARGUMENT: status.INVALID_ARGUMENT,
  FAILED_PRECONDITION: status.FAILED_PRECONDITION,
  RESOURCE_EXHAUSTED: status.RESOURCE_EXHAUSTED,
  NOT_FOUND: status.NOT_FOUND,
  UNAVAILABLE: status.UNAVAILABLE,
} as const;

/** How grpc-js is told of an error. What is not ours is "unavailable": the peer tries again, and learns nothing of the cause. */
export function grpcError(error: unknown): Partial<ServiceError> {
  return error instanceof LinkError
    ? { code: codes[error.code], details: error.message }
    : { code: status.UNAVAILABLE, details: "control cannot answer now" };
}
