/** Why a call to the artifact registry failed; the codes are those of `portableFailures` and `deployFailures` in proto. */
export type RegistryErrorCode =
  | "ARTIFACT_NOT_FOUND"
  | "ARTIFACT_DIGEST_MISMATCH"
  | "ARTIFACT_REGISTRY_UNAVAILABLE"
  | "ARTIFACT_TOO_LARGE";

/** The only error that this package throws for what a registry did. Carries no credential and no response body. */
export class RegistryError extends Error {
  override name = "RegistryError";
  readonly code: RegistryErrorCode;
  /** Whether the same call may work later without anybody changing anything. */
  readonly temporary: boolean;

  constructor(code: RegistryErrorCode, message: string, options: { temporary?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.temporary = options.temporary ?? false;
  }
}

export const unavailable = (message: string, options: { temporary?: boolean; cause?: unknown } = {}): RegistryError =>
  new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", message, options);

/** The error for an answer that is neither a success nor "not found". */
export function refused(doing: string, status: number): RegistryError {
  if (status === 401 || status === 403)
    return unavailable(`${doing}: the registry refused the credential (${status})`, { temporary: false });
  return unavailable(`${doing}: the registry answered ${status}`, { temporary: status >= 500 || status === 429 });
}
