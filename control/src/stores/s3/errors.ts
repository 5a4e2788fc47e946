/** Why a bucket did not do what was asked of it. */
export type BucketErrorReason =
  /** Nobody answers, or not now: later it may. */
  | "away"
  /** It will not, until a setting or the bucket is another. */
  | "refused"
  /** There is no such object. */
  | "absent";

/** The message is for operators. It holds nothing secret, and nothing of what was stored. */
export class BucketError extends Error {
  override readonly name = "BucketError";
  readonly reason: BucketErrorReason;
  /** The server's own word, such as `SignatureDoesNotMatch`; null: it said none. */
  readonly code: string | null;

  constructor(reason: BucketErrorReason, code: string | null, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.reason = reason;
    this.code = code;
  }
}

/** What a word of a server means for whoever set it up. */
const meanings: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: "it does not know the access key of SVC_S3_ACCESS_KEY_ID",
  SignatureDoesNotMatch: "the secret in SVC_S3_SECRET_ACCESS_KEY_FILE is not that of SVC_S3_ACCESS_KEY_ID",
  AccessDenied: "the key may not read, write and delete below SVC_S3_PREFIX in SVC_S3_BUCKET",
  AllAccessDisabled: "the bucket of SVC_S3_BUCKET is disabled",
  NoSuchBucket: "there is no bucket of the name in SVC_S3_BUCKET",
  InvalidBucketName: "there is no bucket of the name in SVC_S3_BUCKET",
  AuthorizationHeaderMalformed: "the bucket is in another region than SVC_S3_REGION says",
  PermanentRedirect: "the bucket is in another region than SVC_S3_REGION and SVC_S3_ENDPOINT say",
  RequestTimeTooSkewed: "its clock and ours differ by more than a quarter of an hour",
  QuotaExceeded: "the bucket is full",
  EntityTooLarge: "it takes no objects of this size",
};

const temporary: readonly string[] = ["SlowDown", "RequestTimeout", "ServiceUnavailable", "InternalError"];

/** What an answer says that is no success. `body`: what it begins with. */
export function answerError(status: number, body: string): BucketError {
  const code = /<Code>([A-Za-z0-9.]{1,80})<\/Code>/.exec(body)?.[1] ?? (status === 301 ? "PermanentRedirect" : null);
  if (status === 404 && (code === "NoSuchKey" || code === null))
    return new BucketError("absent", code, "it is not there");
  const said = code === null ? `${status}` : `${status} ${code}`;
  if (status >= 500 || status === 429 || status === 408 || (code !== null && temporary.includes(code)))
    return new BucketError("away", code, `it answers ${said}`);
  const meaning = code === null ? undefined : meanings[code];
  return new BucketError("refused", code, meaning === undefined ? `it answers ${said}` : `${meaning} (${said})`);
}
