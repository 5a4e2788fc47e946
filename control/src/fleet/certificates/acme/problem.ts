// @pure

/** A problem document (RFC 7807) as ACME uses it; `type` without the common beginning, such as `rateLimited`. */
export interface AcmeProblem {
  type: string;
  detail: string;
  status: number;
}

export type AcmeTrouble =
  /** It does not answer, or with an error of its own that may pass. */
  | "away"
  /** It asks to come back later. */
  | "limited"
  /** It refuses what was asked, or found that a challenge is not answered. */
  | "refused"
  /** It does not speak ACME as we know it. */
  | "nonsense";

/** A call to a CA that came to nothing. The message is the CA's own where it gave one, without anything secret. */
export class AcmeError extends Error {
  override readonly name = "AcmeError";
  readonly trouble: AcmeTrouble;
  readonly problem: AcmeProblem | null;
  /** How long the CA wants to be left alone; null when it did not say. */
  readonly retryAfterMs: number | null;

  constructor(
    trouble: AcmeTrouble,
    message: string,
    more: { problem?: AcmeProblem; retryAfterMs?: number | null; cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.trouble = trouble;
    this.problem = more.problem ?? null;
    this.retryAfterMs = more.retryAfterMs ?? null;
  }
}

const prefix = "urn:ietf:params:acme:error:";
const detailLengthMax = 500;

/**
 * Reads what may be a problem document; null when it is none. Subproblems (RFC 8555, 6.7.1) say more than the whole: the
 * first one's type and text are taken.
 */
export function readProblem(status: number, body: unknown): AcmeProblem | null {
  if (typeof body !== "object" || body === null) return null;
  const { type, detail, subproblems } = body as { type?: unknown; detail?: unknown; subproblems?: unknown };
  if (typeof type !== "string") return null;
  const first: unknown = Array.isArray(subproblems) ? subproblems[0] : undefined;
  const inner = first === undefined ? null : readProblem(status, first);
  const own = {
    type: type.startsWith(prefix) ? type.slice(prefix.length) : type,
    detail: typeof detail === "string" ? detail.slice(0, detailLengthMax) : "",
    status,
  };
  return own.type === "compound" && inner !== null ? inner : own;
}

/** What a problem means for whoever asked. */
export function troubleOf({ type, status }: AcmeProblem): AcmeTrouble {
  if (type === "rateLimited" || status === 429) return "limited";
  return status >= 500 || type === "serverInternal" ? "away" : "refused";
}

const waitMaxMs = 7 * 86_400_000;

/** Milliseconds of a Retry-After header, in seconds or as a date; null when there is none, or it says nothing. */
export function readRetryAfter(text: string | undefined, now: Date): number | null {
  if (text === undefined) return null;
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now.getTime();
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), waitMaxMs);
}
