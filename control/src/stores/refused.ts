import { type ErrorCode, errorMessage } from "@svc/proto/errors";

/**
 * An outcome that the caller is told: a code of the catalogue and a sentence for people, which holds nothing that only we
 * may know. What becomes of it over HTTP is not said here; see `ApiError`.
 */
export class Refused extends Error {
  override readonly name: string = "Refused";
  readonly code: ErrorCode;

  /** @param message the catalogue's sentence by default */
  constructor(code: ErrorCode, message: string = errorMessage(code), options: { cause?: unknown } = {}) {
    super(message, options);
    this.code = code;
  }
}
