import type { FastifyRequest } from "fastify";
import { type Access, denial } from "../auth/access.ts";
import { sessionCookieName } from "../auth/auth.ts";
import { type Caller, findCaller } from "../auth/caller.ts";
import { presentedCredential } from "../auth/credentials.ts";
import type { Context } from "../context.ts";
import { ApiError } from "./errors.ts";
import { comesFromOwnPage, originHeaders } from "./origin.ts";
import type { createRateLimit } from "./rate-limit.ts";

export interface Gate {
  context: Pick<Context, "config" | "db" | "now">;
  rateLimit: ReturnType<typeof createRateLimit>;
}

/**
 * The one choke point: who is asking, may they, and not too often. Runs before the body is read.
 * Returns null for endpoints that are open to everybody. Throws `ApiError`.
 */
export async function authenticate(
  { context, rateLimit }: Gate,
  access: Access,
  request: FastifyRequest,
): Promise<Caller | null> {
  if (access === "none") return null;
  const { config, db, now } = context;
  const credential = presentedCredential(request.headers, sessionCookieName(config.apiUrl));
  if (credential === "none" || credential === "ambiguous") throw new ApiError("UNAUTHORIZED");
  const caller = await findCaller(db, credential, config.authSecret);
  if (caller === null) throw new ApiError("UNAUTHORIZED");
  if (credential.via === "cookie" && !comesFromOwnPage(request.method, originHeaders(request), config.apiUrl)) {
    throw new ApiError("FORBIDDEN", { message: "The request comes from another site." });
  }
  const refused = denial(caller, access);
  if (refused !== null)
    throw new ApiError(refused.code, refused.message === undefined ? {} : { message: refused.message });
  const { rateLimitPerMinute: limit } = caller;
  const wait = limit === null ? null : rateLimit(caller.userId, limit, now().getTime());
  if (wait !== null) throw new ApiError("RATE_LIMITED", { retryAfterSeconds: wait });
  return caller;
}
