import { errorMessage } from "@svc/proto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError, errorEnvelope } from "../../http/errors.ts";
import { addressProblem, readJson } from "../../http/json.ts";
import { comesFromOwnPage, originHeaders } from "../../http/origin.ts";
import { authBasePath } from "../../http/paths.ts";
import { signInCookieName } from "../../http/sign-in-cookie.ts";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Auth } from "./auth.ts";
import { describeDeviceRequest } from "./device-request.ts";
import { findSessionToken, withoutTokens } from "./sessions.ts";
import { clientAddressHeader } from "./trail.ts";

const bodyBytesMax = 64 * 1024;
/** The window of better-auth's limits; a refusal of its own names what is left of it. */
const usualWaitSeconds = 60;

/**
 * What we let through to better-auth. Everything else that it could answer (its own administration,
 * impersonation, deleting accounts) does not exist here.
 */
const allowed: readonly [method: string, path: RegExp][] = [
  ["POST", /^\/sign-(in|up)\/email$/],
  ["POST", /^\/sign-out$/],
  ["GET", /^\/get-session$/],
  ["GET", /^\/list-sessions$/],
  ["POST", /^\/revoke-(session|sessions|other-sessions)$/],
  ["GET", /^\/verify-email$/],
  ["POST", /^\/send-verification-email$/],
  ["POST", /^\/(request-password-reset|reset-password|change-password)$/],
  ["POST", /^\/device\/(code|token|approve|deny)$/],
  ["GET", /^\/device$/],
  // Back from the Git host. The way there begins on our pages.
  ["GET", /^\/callback\/githost$/],
];

/** Headers that only the server before us could have meant, and that we say ourselves. */
const dropped = new Set([
  "host",
  "origin",
  "referer",
  "connection",
  "content-length",
  "transfer-encoding",
  "forwarded",
  "x-real-ip",
]);

/**
 * The request's headers as better-auth may see them, with the client's address under a name that it trusts.
 * Where the request comes from was judged before; the library's own judgement turns away programs whose HTTP
 * client sends some of a browser's headers and not others, so it is told that the request is ours.
 */
export function forwardedHeaders(request: FastifyRequest, apiUrl: string): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (value === undefined || dropped.has(name) || /^(x-forwarded-|sec-fetch-)/.test(name)) continue;
    for (const each of Array.isArray(value) ? value : [value]) headers.append(name, each);
  }
  headers.set(clientAddressHeader, request.ip);
  headers.set("origin", apiUrl);
  return headers;
}

/** Serves better-auth's own calls below /api/auth, in its own shapes. */
export function mountAuth(
  app: FastifyInstance,
  { auth, config, db }: { auth: Auth; config: Pick<Config, "apiUrl">; db: Db },
): void {
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      ["application/json", "application/x-www-form-urlencoded"],
      { parseAs: "buffer", bodyLimit: bodyBytesMax },
      (_request, body, done) => done(null, body),
    );
    scope.route({
      method: ["GET", "POST"],
      url: `${authBasePath}/*`,
      handler: async (request, reply) => {
        const url = new URL(request.url, config.apiUrl);
        const path = url.pathname.slice(authBasePath.length);
        if (!allowed.some(([method, pattern]) => method === request.method && pattern.test(path)))
          throw new ApiError("NOT_FOUND");
        refuseForeignPages(request, config.apiUrl);
        const headers = forwardedHeaders(request, config.apiUrl);
        const body = Buffer.isBuffer(request.body) && request.body.length > 0 ? new Uint8Array(request.body) : null;
        refuseBadText(request, body);
        const sent = await sentBody(path, request, body, headers, db);
        const response = await auth.handler(new Request(url, { method: request.method, headers, body: sent }));
        return tellsOfSessions.test(path) ? relayWithoutTokens(response, reply) : relay(response, reply);
      },
    });
  });
}

/** A page elsewhere may neither act with a visitor's cookie nor sign the visitor in as somebody else. Programs send no Origin. */
function refuseForeignPages(request: FastifyRequest, apiUrl: string): void {
  const headers = originHeaders(request);
  const hasCookie = (request.headers.cookie ?? "").includes(`${signInCookieName(apiUrl)}=`);
  if (!hasCookie && headers.origin === undefined && headers["sec-fetch-site"] === undefined) return;
  if (!comesFromOwnPage(request.method, headers, apiUrl)) {
    throw new ApiError("FORBIDDEN", { message: "The request comes from another site." });
  }
}

/** better-auth hands on whatever text it is given, and the database does not take every text. */
function refuseBadText(request: FastifyRequest, body: Uint8Array | null): void {
  const isJson = (request.headers["content-type"] ?? "").includes("json");
  const read = isJson && body !== null ? readJson(body) : null;
  const problem = addressProblem(request.query) ?? (read !== null && "problem" in read ? read.problem : null);
  if (problem !== null) throw new ApiError("BAD_REQUEST", { message: problem });
}

/** The body as better-auth gets it. */
async function sentBody(
  path: string,
  request: FastifyRequest,
  body: Uint8Array<ArrayBuffer> | null,
  headers: Headers,
  db: Db,
): Promise<Uint8Array<ArrayBuffer> | string | null> {
  if (body === null) return null;
  if (path === "/device/code") return describedRequest(request, body, headers);
  if (path !== "/revoke-session") return body;
  // Named by its id, which is what a list of sessions tells. better-auth ends it if it is the caller's.
  const read = readJson(body);
  const { id } = Object("value" in read ? read.value : null) as { id?: unknown };
  return JSON.stringify(id === undefined ? {} : { token: (await findSessionToken(db, id)) ?? "" });
}

/** The body of a request for a device code, with where it came from for the person who will be asked. */
function describedRequest(request: FastifyRequest, body: Uint8Array<ArrayBuffer>, headers: Headers): string {
  const text = new TextDecoder().decode(body);
  const isForm = (headers.get("content-type") ?? "").includes("x-www-form-urlencoded");
  headers.set("content-type", "application/json");
  let fields: Record<string, unknown> = {};
  try {
    fields = isForm ? Object.fromEntries(new URLSearchParams(text)) : Object(JSON.parse(text));
  } catch {
    // Refused by better-auth for what it lacks.
  }
  return JSON.stringify({ client_id: fields["client_id"], scope: describeDeviceRequest(fields["scope"], request.ip) });
}

/** Headers of an answer that we give ourselves, or leave out. */
const answered = ["set-cookie", "content-length", "access-control-expose-headers"];

async function relay(answer: Response, reply: FastifyReply): Promise<FastifyReply> {
  const response = answer.status === 429 ? await enveloped(answer) : answer;
  const body = Buffer.from(await response.arrayBuffer());
  const kept = body.length === 0 ? [...answered, "content-type"] : answered;
  for (const [name, value] of response.headers) if (!kept.includes(name)) reply.header(name, value);
  relayCookies(response, reply);
  return reply.status(response.status).send(body);
}

/** A refusal for now as every other one of the API, beside what better-auth's clients read. */
async function enveloped(response: Response): Promise<Response> {
  const read = readJson(new Uint8Array(await response.arrayBuffer()));
  const own = Object("value" in read ? read.value : null) as { message?: unknown };
  const message = typeof own.message === "string" ? own.message : errorMessage("RATE_LIMITED");
  const headers = new Headers(response.headers);
  headers.set("content-type", "application/json");
  headers.set("retry-after", headers.get("x-retry-after") ?? `${usualWaitSeconds}`);
  const body = { code: "RATE_LIMITED", message, ...own, ...errorEnvelope("RATE_LIMITED", message) };
  return new Response(JSON.stringify(body), { status: response.status, headers });
}

const tellsOfSessions = /^\/(get-session|list-sessions)$/;

/** The answer without what a script could be made to hand on; whoever was let in by a token has it already. */
async function relayWithoutTokens(response: Response, reply: FastifyReply): Promise<FastifyReply> {
  const text = await response.text();
  const headers = new Headers(response.headers);
  headers.delete("set-auth-token");
  const body = response.ok && text !== "" ? JSON.stringify(withoutTokens(JSON.parse(text))) : text;
  return relay(new Response(body === "" ? null : body, { status: response.status, headers }), reply);
}

/** Hands on the cookies that better-auth sets. */
export function relayCookies(response: Response, reply: FastifyReply): void {
  for (const cookie of response.headers.getSetCookie()) reply.header("set-cookie", cookie);
}
