import { accountRepositories, registryTokenAudience } from "@svc/proto/cluster-registry";
import { createTokenSigner } from "@svc/registry";
import { createLimiter, type Limiter, LimiterFull } from "@svc/runtime/limiter";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { denial } from "../../http/access.ts";
import { recordAudit } from "../../http/audit.ts";
import { type Authentication, findCaller, refusal } from "../../http/authenticate.ts";
import { type Caller, lookupOf } from "../../http/caller.ts";
import { toApiError } from "../../http/error-handler.ts";
import { ApiError, errorEnvelope } from "../../http/errors.ts";
import { apiPrefix } from "../../http/paths.ts";
import { lockCaller } from "../../identity/accounts/store.ts";
import type { TenantContext } from "../context.ts";
import { requireMayPush } from "./access.ts";
import { readKept } from "./contents.ts";
import { readPassword } from "./password.ts";
import { grantToAccount, nameOf, pushedBy, pushProblem } from "./rules.ts";
import { notePush } from "./store.ts";

type TokenContext = Pick<TenantContext, "clock" | "random" | "config" | "db" | "log" | "registry" | "secrets">;

const scopesMax = 20;
const keptWithinMs = 20_000;
const busySeconds = 10;
/** Looks through what accounts keep: one of each at a time, so that nobody's takes the room of all. */
const looks = { total: 4, perKey: 1 };
const waiters = { total: 100, perKey: 10 };

/**
 * Where clients of the registry get tokens, by the protocol that they speak: a name and a password by HTTP Basic, the
 * rights as `scope`, and an answer of their shape. A token is for the account's own repositories and nothing else.
 */
export function mountRegistryTokens(app: FastifyInstance, context: TokenContext, authentication: Authentication): void {
  const { config, clock, random } = context;
  if (config.registry.publicHost === null) return;
  const limiter = createLimiter(looks, waiters);
  const sign = createTokenSigner(random, config.registry.tokenKey, clock.now());
  app.route({
    method: "GET",
    url: `${apiPrefix}/registry/token`,
    errorHandler: (error, _request, reply) => {
      const { code, message, status, retryAfterSeconds } = toApiError(error);
      if (status === 401) reply.header("www-authenticate", 'Basic realm="svc", charset="UTF-8"');
      if (retryAfterSeconds !== null) reply.header("retry-after", `${retryAfterSeconds}`);
      if (status >= 500) context.log.error({ err: error }, "a token of the registry could not be given");
      // Both what clients of registries show and what clients of the API read.
      const errors = [{ code: status === 401 ? "UNAUTHORIZED" : "DENIED", message }];
      return reply.status(status).send({ ...errorEnvelope(code, message), errors });
    },
    handler: async (request, reply) => {
      const { service, scopes } = asked(request);
      if (service !== registryTokenAudience)
        throw new ApiError("BAD_REQUEST", { message: "service: is not this registry" });
      const caller = await authenticated(context, authentication, request);
      const refused = denial(caller, { scope: "deploy" });
      if (refused !== null)
        throw new ApiError(refused.code, refused.message === undefined ? {} : { message: refused.message });
      const { storage_mb } = await requireMayPush(context.db, caller);
      const access = grantToAccount(caller.userId, scopes);
      const pushed = pushedBy(access);
      if (pushed.length > 0) await admitPush(context, limiter, caller, request.ip, pushed, storage_mb);
      const { token, expiresInSeconds } = sign(`account/${caller.userId}`, access, clock.now());
      return reply
        .header("cache-control", "no-store")
        .send({ token, access_token: token, expires_in: expiresInSeconds, issued_at: clock.now().toISOString() });
    },
  });
}

/** Clients ask for several rights by as many parameters, or with blanks between them. */
function asked(request: FastifyRequest): { service: unknown; scopes: string[] } {
  const { service, scope = [] } = request.query as Record<string, unknown>;
  const scopes = [scope].flat().flatMap((each) => (typeof each === "string" ? each.split(" ") : []));
  if (scopes.length > scopesMax) throw new ApiError("BAD_REQUEST", { message: `scope: has more than ${scopesMax}` });
  return { service, scopes };
}

/** By an API key, or by a password that was made of a credential; wrong ones are counted as everywhere. */
async function authenticated(
  { secrets, clock, config }: TokenContext,
  authentication: Authentication,
  request: FastifyRequest,
): Promise<Caller> {
  const [username, password] = basicOf(request.headers.authorization) ?? [];
  if (username === undefined || password === undefined)
    throw new ApiError("UNAUTHORIZED", { message: "Log in with `svc registry login`." });
  const lookup =
    readPassword(secrets, password, clock.now()) ?? lookupOf({ via: "key", key: password }, config.authSecret);
  const caller = lookup === null ? null : await findCaller(authentication.callers, lookup);
  if (caller === null || ![caller.userId, caller.email.toLowerCase()].includes(username.toLowerCase()))
    throw refusal(authentication, request);
  request.caller = caller;
  const { rateLimitPerMinute: limit } = caller;
  const wait = limit === null ? null : authentication.rateLimit.take(caller.userId, limit);
  if (wait !== null) throw new ApiError("RATE_LIMITED", { retryAfterSeconds: wait });
  return caller;
}

function basicOf(header: string | undefined): [string, string] | null {
  const encoded = /^Basic ([A-Za-z0-9+/]{1,4096}={0,2})$/i.exec(header ?? "")?.[1];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? null : [text.slice(0, colon), text.slice(colon + 1)];
}

/** Judges what the account keeps, and notes where it is about to push. Throws QUOTA_EXCEEDED and RATE_LIMITED. */
async function admitPush(
  { clock, db, registry }: TokenContext,
  limiter: Limiter,
  caller: Caller,
  address: string,
  repositories: readonly string[],
  allowedMb: number,
): Promise<void> {
  const { userId } = caller;
  const names = repositories.map((repository) => nameOf(userId, repository) ?? "");
  const signal = clock.abortAfter(keptWithinMs);
  const read = () => readKept({ db, registry }, userId, signal);
  const kept = await limiter(read, { key: userId, signal }).catch((error: unknown) => {
    if (error instanceof LimiterFull || signal.aborted) throw busy();
    throw error;
  });
  const problem = pushProblem(kept, allowedMb, names);
  if (problem !== null) throw new ApiError("QUOTA_EXCEEDED", { message: problem });
  await db.transaction().execute(async (tx) => {
    await lockCaller(tx, caller);
    for (const name of names) {
      const noted = await notePush(tx, userId, name);
      if (noted === "cleaning") throw busy();
      if (noted === "full")
        throw new ApiError("QUOTA_EXCEEDED", { message: "The account has as many repositories as there may be." });
      const target = `${accountRepositories(userId)}${name}`;
      await recordAudit(tx, { caller, address, action: "registry.push", target });
    }
  });
}

const busy = () => new ApiError("RATE_LIMITED", { retryAfterSeconds: busySeconds });
