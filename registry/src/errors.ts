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
  /** The HTTP status that said no; null when the failure was another one. */
  readonly status: number | null;

  constructor(code: RegistryErrorCode, message: string, options: RegistryErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.temporary = options.temporary ?? false;
    this.status = options.status ?? null;
  }
}

interface RegistryErrorOptions {
  temporary?: boolean;
  cause?: unknown;
  status?: number;
}

/** What `Egress` throws for a place that must not be contacted. */
export class EgressBlocked extends RegistryError {
  override name = "EgressBlocked";

  constructor(message: string) {
    super("ARTIFACT_REGISTRY_UNAVAILABLE", message);
  }
}

/** The registry delivered something under the name of a manifest that is none, or one too large to be read. */
export class MalformedManifest extends RegistryError {
  override name = "MalformedManifest";

  constructor(message: string, cause?: unknown) {
    super("ARTIFACT_REGISTRY_UNAVAILABLE", message, { cause });
  }
}

export const unavailable = (message: string, options: RegistryErrorOptions = {}): RegistryError =>
  new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", message, options);

/** The error for an answer that is neither a success nor "not found". */
export function refused(doing: string, status: number): RegistryError {
  if (status === 401 || status === 403)
    return unavailable(`${doing}: the registry refused the credential (${status})`, { temporary: false, status });
  const temporary = status >= 500 || status === 429;
  return unavailable(`${doing}: the registry answered ${status}`, { temporary, status });
}
