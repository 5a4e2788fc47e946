/**
 * - `stalled`: no answer in time. Whether the engine acted is unknown: look before trying again.
 * - `unreachable`: the engine is not there.
 * - `foreign`: the object belongs to somebody else.
 */
export type EngineErrorKind = "not-found" | "conflict" | "stalled" | "unreachable" | "foreign" | "failed";

export class EngineError extends Error {
  override name = "EngineError";
  readonly kind: EngineErrorKind;
  /** HTTP status of the engine's answer; 0 when there was none. */
  readonly status: number;

  constructor(kind: EngineErrorKind, message: string, options: { status?: number; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.kind = kind;
    this.status = options.status ?? 0;
  }
}

/** Whether the engine itself, and not this request, is the trouble. */
export const isEngineTrouble = (cause: unknown): boolean =>
  cause instanceof EngineError && (cause.kind === "stalled" || cause.kind === "unreachable");

/** Turns whatever the client library threw into an `EngineError` that says what was attempted. */
export function asEngineError(what: string, cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const status = numberField(cause, "statusCode");
  const message = `${what}: ${messageOf(cause)}`;
  if (status === 404) return new EngineError("not-found", message, { status, cause });
  if (status === 409) return new EngineError("conflict", message, { status, cause });
  if (status > 0) return new EngineError("failed", message, { status, cause });
  const code = textField(cause, "code");
  if (["ECONNREFUSED", "ENOENT", "EACCES", "ECONNRESET", "EPIPE"].includes(code)) {
    return new EngineError("unreachable", message, { cause });
  }
  return new EngineError("failed", message, { cause });
}

function messageOf(cause: unknown): string {
  if (typeof cause === "object" && cause !== null) {
    const answer: unknown = Reflect.get(cause, "json");
    const text = textField(answer, "message");
    if (text !== "") return text;
  }
  return cause instanceof Error ? cause.message : String(cause);
}

function textField(value: unknown, key: string): string {
  const field: unknown = typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
  return typeof field === "string" ? field : "";
}

function numberField(value: unknown, key: string): number {
  const field: unknown = typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
  return typeof field === "number" ? field : 0;
}
