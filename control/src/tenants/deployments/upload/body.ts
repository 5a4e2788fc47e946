import { once } from "node:events";
import { RegistryError } from "@svc/registry";
import type { FastifyRequest } from "fastify";
import { ApiError, refusalOf } from "../../../http/errors.ts";
import { RefusedSourceError } from "./source.ts";

/**
 * What `body` brings, until `signal` aborts, and then its reason: a silent client is not waited for. Throws VALIDATION
 * for a body that its own frame or end contradicts.
 */
export async function* until<T>(body: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const items = body[Symbol.asyncIterator]();
  // A promise per item: one for all of them would keep every item alive that was ever raced against it.
  let refuse: (reason: unknown) => void = () => {};
  const next = () =>
    new Promise<IteratorResult<T>>((resolve, reject) => {
      refuse = reject;
      items.next().then(resolve, (cause: unknown) => reject(damaged(cause)));
    });
  const abort = () => refuse(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    for (;;) {
      signal.throwIfAborted();
      const item = await next();
      if (item.done === true) return;
      yield item.value;
    }
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const damaged = (cause: unknown) =>
  new ApiError("VALIDATION", {
    message: "The upload is cut short or is not valid multipart data.",
    cause,
    closesConnection: true,
  });

export const invalid = (message: string) => new ApiError("VALIDATION", { message, closesConnection: true });

export const tooLarge = (maxBytes: number) =>
  new ApiError("UPLOAD_TOO_LARGE", {
    message: `The archive is larger than the ${Math.floor(maxBytes / 1_048_576)} MiB that the plan allows. Leave out files that the build does not need.`,
    closesConnection: true,
  });

/** What is wrong with an upload in the words of the API; what is wrong with us stays what it is. */
export function uploadError(error: unknown, maxBytes: number): Error {
  if (error instanceof RefusedSourceError) return invalid(error.message);
  if (error instanceof RegistryError) {
    return error.code === "ARTIFACT_TOO_LARGE"
      ? tooLarge(maxBytes)
      : new ApiError("UNAVAILABLE", {
          message: "The archive could not be stored. Try again in a moment.",
          cause: error,
          closesConnection: true,
        });
  }
  const refusal = refusalOf(error);
  if (refusal === null) return error instanceof Error ? error : new Error(String(error));
  const { code, message, status, retryAfterSeconds, cause } = refusal;
  return new ApiError(code, {
    message,
    status,
    cause,
    closesConnection: true,
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  });
}

/** Aborted when the client goes away before it has an answer. */
export function clientGone(request: FastifyRequest, done: AbortSignal): AbortSignal {
  const gone = new AbortController();
  once(request.raw.socket, "close", { signal: done }).then(
    () => gone.abort(damaged(new Error("the client went away"))),
    () => {},
  );
  return gone.signal;
}
