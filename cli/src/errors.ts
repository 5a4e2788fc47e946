/** Every code of the command line, with the exit status that goes with it. 3 and 7 are retired. */
export const exitCodes = {
  CLI_INVALID_USAGE: 2,
  CLOUD_NOT_LOGGED_IN: 2,
  CLOUD_UNAUTHORIZED: 1,
  CLOUD_FORBIDDEN_SCOPE: 1,
  CLOUD_NOT_FOUND: 1,
  CLOUD_UNAVAILABLE: 1,
  CLOUD_REQUEST_FAILED: 1,
  CLOUD_LOGIN_DENIED: 1,
  CLOUD_LOGIN_EXPIRED: 1,
  CLOUD_LOGIN_FAILED: 1,
  CONFIG_INVALID: 2,
  TOKEN_REF_INVALID: 2,
  TOKEN_MISSING: 2,
  MANIFEST_NOT_FOUND: 2,
  MANIFEST_INVALID: 2,
  ENV_FILE_NOT_FOUND: 2,
  DATABASE_NOT_READY: 1,
  DEV_SYNC_UNAVAILABLE: 1,
  DEPLOY_TRIGGER_FAILED: 4,
  DEPLOY_FAILED: 4,
  DEPLOY_TIMEOUT: 4,
  VERIFY_FAILED: 5,
  DESTRUCTIVE_CONFIRMATION_REQUIRED: 6,
  UNEXPECTED: 1,
} as const;

export type CliErrorCode = keyof typeof exitCodes;

/** Exit status after SIGINT and SIGTERM, as shells expect it. */
export const interruptExitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/** A failure that a person can act on. `hint` is the next thing to type, when there is one. */
export class CliError extends Error {
  override name = "CliError";
  readonly code: CliErrorCode;
  readonly hint: string | undefined;
  /** What the API answered, when it is what failed. */
  readonly server: ServerError | undefined;

  constructor(
    code: CliErrorCode,
    message: string,
    options: { hint?: string | undefined; cause?: unknown; server?: ServerError } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
    this.server = options.server;
  }
}

/** Ctrl-C at a question: the terminal gives it to who reads, as a key, and sends no signal. */
export class Interrupted extends Error {
  override name = "Interrupted";
}

/** Anything thrown, as a CliError: what nobody foresaw becomes UNEXPECTED and keeps its cause. */
export function toCliError(thrown: unknown): CliError {
  if (thrown instanceof CliError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new CliError("UNEXPECTED", message || "Something failed without saying why", {
    cause: thrown,
    hint: "Run the command again with --verbose to see where it failed",
  });
}

/** The error part of an answer of the API. `code` is null when the body was not one of svc's. */
export interface ServerError {
  status: number;
  code: string | null;
  message: string;
  retryAfterSeconds: number | null;
}

interface MappingRule {
  applies(error: ServerError): boolean;
  code: CliErrorCode;
}

const either =
  (...codes: string[]) =>
  (error: ServerError) =>
    error.code !== null && codes.includes(error.code);

/** First rule that applies wins; the last one always does. */
const mapping: readonly MappingRule[] = [
  {
    applies: either(
      "QUOTA_EXCEEDED",
      "ROLLBACK_UNAVAILABLE",
      "SLUG_CONFLICT",
      "BACKUP_IN_PROGRESS",
      "BACKUP_NOT_READY",
    ),
    code: "CLOUD_REQUEST_FAILED",
  },
  { applies: either("DATABASE_NOT_READY", "DATABASE_PROVISIONING"), code: "DATABASE_NOT_READY" },
  { applies: either("SUSPENDED", "EMAIL_NOT_VERIFIED"), code: "CLOUD_REQUEST_FAILED" },
  { applies: either("FORBIDDEN_SCOPE"), code: "CLOUD_FORBIDDEN_SCOPE" },
  { applies: ({ status }) => status === 401 || status === 403, code: "CLOUD_UNAUTHORIZED" },
  { applies: ({ status }) => status === 404, code: "CLOUD_NOT_FOUND" },
  { applies: ({ status }) => status >= 500, code: "CLOUD_UNAVAILABLE" },
  { applies: () => true, code: "CLOUD_REQUEST_FAILED" },
];

/** What to do next, by server code. */
const hints: Readonly<Record<string, string>> = {
  UNAUTHORIZED: "Run `svc login`, or put a valid key into SVC_TOKEN",
  FORBIDDEN_SCOPE: "Use a key that may do this in SVC_TOKEN, or a full login: `svc login`",
  SUSPENDED: "Ask the administrator of this installation to resume the project, then run the command again",
  EMAIL_NOT_VERIFIED: "Open the link in the verification mail, then run the command again",
  QUOTA_EXCEEDED: "See what you have with `svc projects list`, and remove what you no longer need",
  SLUG_CONFLICT:
    "Choose another slug: in the manifest (or `slug: auto`) for `svc deploy`, else with `svc projects rename`",
  ROLLBACK_UNAVAILABLE:
    "See the deployments with `svc status`; a preview goes to production with `svc promote`, anything else with `svc deploy`",
  PROMOTE_UNAVAILABLE: "See what runs with `svc status`, or deploy a preview with `svc deploy --preview`",
  CANCEL_UNAVAILABLE: "See what became of it with `svc status`",
  DELETE_UNAVAILABLE:
    "One that is on its way ends with `svc cancel`; production with `svc stop`, or with the project: `svc projects delete`",
  STOP_UNAVAILABLE: "See what runs with `svc status`",
  START_UNAVAILABLE: "See what runs with `svc status`, or deploy anew with `svc deploy --prod`",
  RUNTIME_LOGS_UNAVAILABLE: "See what runs with `svc status`, and the build with `svc logs`",
  UPLOAD_TOO_LARGE:
    "See what is packed with `svc deploy --dry-run`, and leave files out with lines in .gitignore, or in .svcignore if you have one",
  OCI_REFERENCE_INVALID: "Mend image.reference in the manifest, then run `svc deploy` again",
  PLAN_FEATURE_UNAVAILABLE: "Ask the administrator of this installation for a plan that includes it",
  TOKEN_CREATE_FAILED: "See your keys with `svc tokens list`, and revoke one with `svc tokens revoke <id>`",
  FORBIDDEN: "Log in as an administrator with `svc login`",
  PREVIEW_UNAVAILABLE: "Deploy to production with `svc deploy --prod`",
  CA_ROTATION_UNDER_WAY: "See how far it is, and what it waits for, with `svc admin ca show`",
  DATABASE_NOT_READY: "See it with `svc db status`, create it with `svc db branch <channel>`",
  DATABASE_PROVISIONING: "See how far it is with `svc db status`, then run the command again",
  DATABASE_ENGINE_CONFLICT:
    "A project keeps the engine of its first database: leave --engine out, and write that engine into the manifest",
  DATABASE_ENGINE_UNAVAILABLE: "Use Postgres, or ask the administrator of this installation for the other one",
  BACKUP_IN_PROGRESS: "See it with `svc db backup list --all-channels`, and try again when it is done",
  BACKUP_NOT_READY: "See how far it is with `svc db backup list --all-channels`",
  DRY_RUN_UNAVAILABLE: "Only Postgres takes back what a statement did; run it without --dry-run, or on another channel",
  QUERY_ERROR: "See what there is with `svc db schema`",
  TABLE_NOT_FOUND: "See the tables with `svc db tables`",
  SCOPE_UNAVAILABLE: "See what runs with `svc status`, and the jobs of it with `svc jobs ls`",
  ARTIFACT_UNAVAILABLE: "Deploy again with `svc deploy`, then run the job",
  CLUSTER_SCHEDULER_DISABLED: "Start control with SVC_CLUSTER_SCHEDULER=on",
};

const statusHints: Readonly<Record<number, string>> = {
  401: "Run `svc login`, or put a valid key into SVC_TOKEN",
  404: "See your projects with `svc projects list`",
  409: "See how things stand with `svc status`",
  413: "Something before the service, such as a proxy, takes no request of this size: have its limit raised, or see what is packed with `svc deploy --dry-run`",
  422: "Mend what the message names, then run the command again",
  500: "Run the command again; if that goes on, tell the administrator of this installation",
  502: "The service is restarting or overloaded; run the command again in a moment",
  503: "The service is restarting or overloaded; run the command again in a moment",
  504: "The service is restarting or overloaded; run the command again in a moment",
};

/**
 * The client's error for an answer of the API that was not a success. The server's code stays in
 * the message of CLOUD_REQUEST_FAILED and CLOUD_UNAUTHORIZED, which stand for many of them.
 */
export function fromServerError(error: ServerError): CliError {
  const code = mapping.find((rule) => rule.applies(error))?.code ?? "CLOUD_REQUEST_FAILED";
  const named = error.code !== null && (code === "CLOUD_REQUEST_FAILED" || code === "CLOUD_UNAUTHORIZED");
  const wait =
    error.retryAfterSeconds === null ? undefined : `Wait ${error.retryAfterSeconds} s, then run the command again`;
  return new CliError(code, named ? `${error.code}: ${error.message}` : error.message, {
    server: error,
    hint: (error.status === 429 ? wait : undefined) ?? hints[error.code ?? ""] ?? statusHints[error.status],
  });
}

/**
 * The same for the call that starts a deployment: a refusal of the upload itself is
 * DEPLOY_TRIGGER_FAILED. What concerns the caller, the plan, a missing project, a database that
 * is not ready or the service being down keeps its usual code.
 */
export function fromDeployError(error: ServerError): CliError {
  const usual = fromServerError(error);
  if (usual.code !== "CLOUD_REQUEST_FAILED" || error.status === 403) return usual;
  return new CliError("DEPLOY_TRIGGER_FAILED", usual.message, { hint: usual.hint, server: error });
}
