import { Readable } from "node:stream";
import type { ErrorCode } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { CannotOpen } from "../stores/secrets.ts";
import { ApiError, errorEnvelope, refusalOf } from "./errors.ts";

/** How long the rest of a request may still arrive after it was refused; a client that only writes would not see the answer else. */
const lingerMs = 5_000;

/** A client that is told that the database is away, or busy, may ask again after so long. */
export const retryAfterSeconds = 5;
/** Of the system and of Postgres: no connection; shutting down or starting; out of connections; a lock or a statement took too long. */
const unavailableCodes: ReadonlySet<string> = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "ENOENT", "08006", "08001"],
  ...["57P01", "57P02", "57P03", "53300"],
  ...["55P03", "57014"],
]);

/** The body of an upload is of another type than the call takes. */
export const otherContentType = {
  code: "VALIDATION",
  message: "Send the body in the content type that this call documents.",
} as const;

/** What the framework refuses by itself, as the catalogue says it. */
const frameworkErrors: Readonly<Record<string, { code: ErrorCode; message?: string }>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: otherContentType,
  FST_ERR_CTP_BODY_TOO_LARGE: { code: "BODY_TOO_LARGE" },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: "BAD_REQUEST",
    message: "The body is shorter or longer than Content-Length says.",
  },
  FST_ERR_CTP_EMPTY_TYPE: otherContentType,
  FST_ERR_BAD_URL: { code: "BAD_REQUEST", message: "The address is not valid." },
  // An id that cannot exist is an id that does not exist.
  FST_ERR_MAX_PARAM_LENGTH: { code: "NOT_FOUND" },
  FST_ERR_ASYNC_CONSTRAINT: { code: "BAD_REQUEST" },
};

/** Turns anything thrown into an `ApiError`. What is not meant for the caller becomes INTERNAL and keeps its cause for the log. */
export function toApiError(error: unknown): ApiError {
  const refusal = refusalOf(error);
  if (refusal !== null) return refusal;
  const { code, statusCode } = error as Partial<FastifyError>;
  const known = code === undefined ? undefined : frameworkErrors[code];
  if (known !== undefined)
    return new ApiError(known.code, { ...(known.message && { message: known.message }), cause: error });
  // Bodies and addresses that the framework refused before we knew of them.
  if (code?.startsWith("FST_") && statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new ApiError("BAD_REQUEST", { cause: error });
  }
  if (isUnavailable(error)) return new ApiError("UNAVAILABLE", { cause: error, retryAfterSeconds });
  return new ApiError("INTERNAL", { cause: error });
}

/**
 * What `attempt` resolves to. A failure that nobody foresaw, and that would be INTERNAL, is `code` with status 500 and
 * its cause in the log; refusals stay what they are.
 */
export async function unforeseenAs<T>(
  { code, message }: { code: ErrorCode; message: string },
  attempt: () => Promise<T>,
): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    const refusal = toApiError(error);
    throw refusal.code === "INTERNAL" ? new ApiError(code, { status: 500, message, cause: error }) : refusal;
  }
}

/** The database is down, starting, stopping, out of connections, or somebody holds a row for long: worth trying again, and no bug of ours. */
function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof CannotOpen) return false;
  const code = (error as { code?: string }).code ?? "";
  return (
    unavailableCodes.has(code) ||
    error.message === "timeout exceeded when trying to connect" ||
    error.message === "Query read timeout" ||
    error.message === "Connection terminated unexpectedly"
  );
}

export type SendError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** The one place where errors become replies. */
export const errorSender =
  (clock: Clock): SendError =>
  (error, request, reply) => {
    // A client that leaves in the middle of a request is told nothing, and nothing of ours failed.
    const isGone = request.raw.destroyed && !request.raw.complete;
    const refusal = isGone ? new ApiError("BAD_REQUEST", { cause: error }) : toApiError(error);
    if (refusal.status >= 500)
      request.log.error({ err: refusal.cause ?? refusal, code: refusal.code }, "request failed");
    if (refusal.retryAfterSeconds !== null) reply.header("retry-after", `${refusal.retryAfterSeconds}`);
    const body = Buffer.from(JSON.stringify(errorEnvelope(refusal.code, refusal.message)));
    reply.status(refusal.status).type("application/json; charset=utf-8");
    if (!refusal.closesConnection || request.raw.readableEnded) {
      void reply.send(body);
      return;
    }
    void reply
      .headers({ connection: "close", "content-length": body.length })
      .send(Readable.from(bodyThenDrain(clock, body, request), { objectMode: false }));
  };

/**
 * The body at once, and the end of the reply when the client has stopped sending or a while has passed: ending
 * the connection under a client that still writes would take the reply away from it.
 */
async function* bodyThenDrain(clock: Clock, body: Buffer, { raw }: FastifyRequest): AsyncGenerator<Buffer> {
  yield body;
  raw.unpipe();
  raw.resume();
  const { promise, resolve } = Promise.withResolvers<void>();
  using _ = clock.after(lingerMs, resolve);
  raw.once("end", resolve).once("close", resolve);
  await promise;
}
