/** How an error code appears to a caller of the HTTP API. */
export interface ErrorSpec {
  /** HTTP status when the thrower names none. */
  readonly status: number;
  /** Other statuses under which the same code may be sent. */
  readonly alsoStatus?: readonly number[];
  /** Shown when the thrower has nothing more exact to say: what is wrong and what to do about it. */
  readonly message: string;
}

/** Every `error.code` of the HTTP API. */
export const errorCatalogue = {
  // Who is asking
  UNAUTHORIZED: { status: 401, message: "Sign in, or send a valid API key in the x-api-key header." },
  FORBIDDEN_SCOPE: {
    status: 403,
    message: "The API key lacks the scope for this call. Create a key with that scope, or use a full-access key.",
  },
  FORBIDDEN: { status: 403, message: "This call is for administrators." },
  SESSION_REQUIRED: { status: 403, message: "This call needs a signed-in session; an API key is not accepted." },
  EMAIL_NOT_VERIFIED: {
    status: 403,
    message: "Verify your email address first; the link is in the mail you got at sign-up.",
  },
  PASSWORD_ALREADY_SET: { status: 409, message: "The account already has a password. Change it instead." },
  SET_PASSWORD_FAILED: {
    status: 400,
    alsoStatus: [500],
    message: "The password was not accepted. Choose another one.",
  },
  TOKEN_CREATE_FAILED: {
    status: 400,
    alsoStatus: [500],
    message: "The key could not be created. Check its expiry: 1 to 365 days.",
  },
  GITHOST_NOT_CONNECTED: { status: 400, message: "Connect your Git host account first." },
  GITHOST_TOKEN_INVALID: { status: 400, message: "The Git host refused the stored access. Connect the account again." },

  // What was sent
  VALIDATION: { status: 422, message: "The request is not valid." },
  BAD_REQUEST: { status: 400, alsoStatus: [408, 417, 421, 431], message: "The request could not be read." },
  INVALID_INPUT: { status: 400, message: "A parameter of the request is not valid." },
  INVALID_BODY: { status: 400, message: "The request body is not valid." },
  INVALID_EMAIL: { status: 422, message: "That is not an email address." },
  UPLOAD_TOO_LARGE: {
    status: 413,
    message: "The upload is larger than the plan allows. Leave out files that the build does not need.",
  },
  BODY_TOO_LARGE: { status: 413, message: "The request body is too large." },
  METHOD_NOT_ALLOWED: { status: 405, message: "This address does not answer to that method." },
  IDEMPOTENCY_CONFLICT: {
    status: 409,
    message: "That Idempotency-Key was used for a different request. Use a new key.",
  },
  OCI_REFERENCE_INVALID: {
    status: 422,
    message:
      "The image reference is not valid. Write registry/name:tag or registry/name@sha256:… with a public registry.",
  },
  DESTRUCTIVE_CONFIRMATION_REQUIRED: {
    status: 400,
    message: "This cannot be undone. Repeat the call with confirm: true.",
  },
  UNKNOWN_PLAN: { status: 422, message: "There is no plan with that slug." },

  // What exists
  NOT_FOUND: { status: 404, message: "Not found, or not yours." },
  SLUG_CONFLICT: { status: 409, message: "That slug is taken. Choose another one." },
  CONFLICT: { status: 409, message: "That name is already used." },

  // What the account may do
  SUSPENDED: {
    status: 403,
    message: "The project is suspended. Ask the administrator of this installation to resume it.",
  },
  PLAN_FEATURE_UNAVAILABLE: { status: 403, message: "The plan does not include this feature." },
  PREVIEW_UNAVAILABLE: {
    status: 403,
    message: "Preview deployments are not available here. Deploy to production instead.",
  },
  QUOTA_EXCEEDED: {
    status: 403,
    alsoStatus: [422],
    message: "The plan's limit is reached. Remove something, or move to a larger plan.",
  },
  RATE_LIMITED: { status: 429, message: "Too many requests. Try again later." },

  // Deployments
  ROLLBACK_UNAVAILABLE: {
    status: 409,
    alsoStatus: [400],
    message: "This deployment cannot be rolled back to. Choose a superseded one whose artifact still exists.",
  },
  PROMOTE_UNAVAILABLE: { status: 409, message: "Only a running preview deployment can be promoted." },
  CANCEL_UNAVAILABLE: {
    status: 409,
    message: "Only a deployment that is queued, building or deploying can be canceled.",
  },
  DELETE_UNAVAILABLE: {
    status: 409,
    message: "Only a preview or dev deployment, or one that is over, can be removed.",
  },
  STOP_UNAVAILABLE: { status: 409, message: "No production deployment is running." },
  START_UNAVAILABLE: { status: 409, message: "No production deployment is stopped." },
  SCREENSHOT_UNAVAILABLE: { status: 409, message: "Only a live production or preview deployment can be captured." },
  RUNTIME_LOGS_UNAVAILABLE: {
    status: 409,
    alsoStatus: [502],
    message: "No container of this project is running. Deploy or start it first.",
  },

  // Scheduled jobs
  SCOPE_UNAVAILABLE: {
    status: 409,
    message: "The job belongs to a deployment that no longer serves. List the jobs again.",
  },
  ARTIFACT_UNAVAILABLE: { status: 409, message: "The image that the job would run is gone. Deploy again." },

  // Databases
  DATABASE_PROVISIONING: { status: 409, message: "The database is still being created. Try again in a moment." },
  DATABASE_NOT_READY: {
    status: 409,
    message: "The database of this channel is not ready. Create it, or look at its status.",
  },
  DATABASE_ENGINE_CONFLICT: {
    status: 409,
    message: "The project's database engine is fixed and differs from the one asked for.",
  },
  DATABASE_ENGINE_UNAVAILABLE: { status: 503, message: "That database engine is not offered by this installation." },
  DRY_RUN_UNAVAILABLE: { status: 400, message: "This database engine has no dry run." },
  QUERY_ERROR: { status: 400, message: "The database refused the statement." },
  TABLE_NOT_FOUND: { status: 404, message: "There is no such table." },
  COLUMN_NOT_FOUND: { status: 400, message: "There is no such column." },
  NO_PRIMARY_KEY: { status: 400, message: "The table has no primary key, so single rows cannot be changed." },
  BACKUP_IN_PROGRESS: { status: 409, message: "A backup of this project is under way. Wait until it is done." },
  BACKUP_NOT_READY: { status: 409, message: "The backup is not complete." },

  // Administration
  SELF_ACTION: { status: 400, message: "You cannot do that to your own account." },
  ALREADY_SUSPENDED: { status: 409, message: "The project is already suspended." },
  NOT_SUSPENDED: { status: 409, message: "The project is not suspended." },
  PLAN_IS_DEFAULT: { status: 409, message: "The default plan cannot be deleted. Make another plan the default first." },
  PLAN_IN_USE: { status: 409, message: "Users have this plan. Move them to another one first." },
  CLUSTER_SCHEDULER_DISABLED: {
    status: 409,
    message: "Node actions need the cluster scheduler. Set SVC_CLUSTER_SCHEDULER=on.",
  },
  NODE_ACTION_UNAVAILABLE: {
    status: 409,
    message: "The node's state does not allow this action, or confirm: true is missing.",
  },

  CA_ROTATION_UNDER_WAY: {
    status: 409,
    message: "The certificate authority is being replaced already. Wait until every machine has moved.",
  },

  // Us
  INTERNAL: { status: 500, message: "Something went wrong on our side. The failure was recorded; try again." },
  UNAVAILABLE: { status: 503, message: "The service is starting or a part of it is down. Try again in a moment." },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof errorCatalogue;

/** Every code of the catalogue. */
export const errorCodes = Object.keys(errorCatalogue) as ErrorCode[];

export const isErrorCode = (value: unknown): value is ErrorCode =>
  typeof value === "string" && Object.hasOwn(errorCatalogue, value);

const specOf = (code: ErrorCode): ErrorSpec => errorCatalogue[code];

/** The HTTP status of `code`, or `wanted` when the catalogue lists it for that code. */
export function errorStatus(code: ErrorCode, wanted?: number): number {
  const { status, alsoStatus } = specOf(code);
  return wanted !== undefined && alsoStatus?.includes(wanted) ? wanted : status;
}

/** The public sentence of `code`. */
export const errorMessage = (code: ErrorCode): string => specOf(code).message;
