import { Crowded } from "@svc/runtime/batch";
import type { FastifyRequest } from "fastify";
import type { Access } from "./access.ts";
import { denial } from "./access.ts";
import type { Caller } from "./caller.ts";
import { lookupOf } from "./caller.ts";
import type { Callers } from "./callers.ts";
import type { Context } from "./context.ts";
import { presentedCredential } from "./credentials.ts";
import { ApiError } from "./errors.ts";
import type { Guesses } from "./guesses.ts";
import { comesFromOwnPage, originHeaders } from "./origin.ts";
import { isOwnHost } from "./own-host.ts";
import type { RateLimit } from "./rate-limit.ts";
import { signInCookieName } from "./sign-in-cookie.ts";

/** What it takes to know a caller, and to hold back one that asks or guesses too often. */
export interface Authentication {
  context: Pick<Context, "clock" | "config">;
  callers: Callers;
  guesses: Guesses;
  rateLimit: RateLimit;
}

/**
 * The one choke point: who is asking, may they, and not too often. Runs before the body is read.
 * Returns null for endpoints that are open to everybody. Throws `ApiError`.
 */
export async function authenticate(
  authentication: Authentication,
  access: Access,
  request: FastifyRequest,
): Promise<Caller | null> {
  if (access === "none") return null;
  const { callers, rateLimit, context } = authentication;
  const { apiUrl, authSecret } = context.config;
  const credential = presentedCredential(request.headers, signInCookieName(apiUrl));
  if (credential === "none") throw new ApiError("UNAUTHORIZED");
  if (credential === "ambiguous") throw refusal(authentication, request);
  const isCookie = credential.via === "cookie";
  // Under a name that is not ours a browser sends no cookie of ours, unless that name was made to lead here.
  if (isCookie && !isOwnHost(request.headers.host, apiUrl)) {
    throw new ApiError("UNAUTHORIZED", { message: `A session's cookie counts at ${apiUrl} alone.` });
  }
  const lookup = lookupOf(credential, authSecret);
  const caller = lookup === null ? null : await findCaller(callers, lookup);
  // What we signed is no guess: a session that has ended since.
  if (caller === null) throw lookup?.isSigned ? new ApiError("UNAUTHORIZED") : refusal(authentication, request);
  // Known also when refused, for the log.
  request.caller = caller;
  if (isCookie && !comesFromOwnPage(request.method, originHeaders(request), apiUrl)) {
    throw new ApiError("FORBIDDEN", { message: "The request comes from another site." });
  }
  const { rateLimitPerMinute: limit } = caller;
  const wait = limit === null ? null : rateLimit.take(caller.userId, limit);
  if (wait !== null) throw new ApiError("RATE_LIMITED", { retryAfterSeconds: wait });
  const refused = denial(caller, access);
  if (refused !== null)
    throw new ApiError(refused.code, refused.message === undefined ? {} : { message: refused.message });
  return caller;
}

/** Whose credential it is; null for none. Throws UNAVAILABLE when too many ask at once. */
export async function findCaller(callers: Callers, lookup: Parameters<Callers["find"]>[0]): Promise<Caller | null> {
  try {
    return await callers.find(lookup);
  } catch (cause) {
    if (cause instanceof Crowded) throw new ApiError("UNAVAILABLE", { cause, retryAfterSeconds: 1 });
    throw cause;
  }
}

/** For a credential that is none. A client that sends many of them is told to wait; a valid one passes all the same. */
export function refusal({ guesses, context }: Authentication, request: FastifyRequest): ApiError {
  const wait = guesses.wrong(request.ip, context.clock.now());
  if (wait === null) return new ApiError("UNAUTHORIZED");
  return new ApiError("RATE_LIMITED", {
    message: "Too many invalid credentials came from your address. Sign in, or send a valid API key.",
    retryAfterSeconds: wait,
  });
}
