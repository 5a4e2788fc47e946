import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Caller, findCaller } from "../../http/caller.ts";
import { presentedCredential } from "../../http/credentials.ts";
import { ApiError } from "../../http/errors.ts";
import { comesFromOwnPage, originHeaders } from "../../http/origin.ts";
import { authBasePath } from "../../http/paths.ts";
import { signInCookieName } from "../../http/sign-in-cookie.ts";
import { instanceName } from "../../settings/instance-name.ts";
import { forwardedHeaders } from "../auth/mount.ts";
import type { IdentityContext } from "../context.ts";
import { type Page, renderPage, type Site } from "./layout.ts";

const css = readFileSync(new URL("./style.css", import.meta.url));
const cssHash = createHash("sha256").update(css).digest("hex").slice(0, 16);

/** The style sheet under a name that changes with it, so that it can be kept for ever. */
export const stylesheet = { path: `/assets/style-${cssHash}.css`, body: css };

const pagePolicy = (leadsTo: string | null) =>
  [
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self'",
    `form-action 'self'${leadsTo === null ? "" : ` ${leadsTo}`}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

export const siteOf = ({ config }: Pick<IdentityContext, "config">): Site => ({
  instance: instanceName(config.apiUrl),
  stylesheet: stylesheet.path,
});

export function sendPage(
  context: Pick<IdentityContext, "config">,
  reply: FastifyReply,
  page: Page,
  status = 200,
): FastifyReply {
  return reply
    .status(status)
    .headers({
      "content-security-policy": pagePolicy(page.leadsTo ?? null),
      // "no-referrer" would make browsers hide the origin of our own forms from us.
      "referrer-policy": "same-origin",
    })
    .type("text/html; charset=utf-8")
    .send(renderPage(siteOf(context), page));
}

/** After a form: the next page, fetched anew, so that reloading it sends nothing again. */
export const redirect = (reply: FastifyReply, path: string): FastifyReply =>
  reply.header("referrer-policy", "same-origin").redirect(path, 303);

/** Who is signed in by cookie; null when nobody is. */
export async function visitor({ db, config }: IdentityContext, request: FastifyRequest): Promise<Caller | null> {
  const credential = presentedCredential({ cookie: request.headers.cookie }, signInCookieName(config.apiUrl));
  return typeof credential === "string" ? null : findCaller(db, credential, config.authSecret);
}

/** A form's fields, the first of each name. Refuses a form of another site, signed in or not: it may not sign anybody in either. */
export function readForm({ config }: IdentityContext, request: FastifyRequest): (name: string) => string {
  if (!comesFromOwnPage(request.method, originHeaders(request), config.apiUrl)) {
    throw new ApiError("FORBIDDEN", { message: "The form comes from another site." });
  }
  const fields = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
  return (name) => fields.get(name) ?? "";
}

export interface AuthAnswer {
  response: Response;
  status: number;
  /** The code of a refusal, as better-auth or the device flow names it; "" for a success. */
  code: string;
  body: Record<string, unknown>;
  retryAfterSeconds: number | null;
}

/** Calls better-auth as the visitor, limits included. */
export async function callAuth(
  { auth, config }: IdentityContext,
  request: FastifyRequest,
  call: { method: "GET" | "POST"; path: string; body?: Record<string, unknown> },
): Promise<AuthAnswer> {
  const headers = forwardedHeaders(request, config.apiUrl);
  for (const name of ["content-type", "authorization", "x-api-key"]) headers.delete(name);
  headers.set("accept", "application/json");
  if (call.body) headers.set("content-type", "application/json");
  const response = await auth.handler(
    new Request(`${config.apiUrl}${authBasePath}${call.path}`, {
      method: call.method,
      headers,
      body: call.body === undefined ? null : JSON.stringify(call.body),
    }),
  );
  if (response.status === 503) throw await busy(response);
  const body = await readBody(response);
  const code = response.ok ? "" : String(body["code"] ?? body["error"] ?? "");
  return {
    response,
    status: response.status,
    code,
    body,
    retryAfterSeconds: Number(response.headers.get("x-retry-after")) || null,
  };
}

/** There was no place for it in the line of passwords. */
async function busy(response: Response): Promise<ApiError> {
  const { message } = await readBody(response);
  const retryAfterSeconds = Number(response.headers.get("retry-after")) || 5;
  return new ApiError("UNAVAILABLE", { retryAfterSeconds, ...(typeof message === "string" && { message }) });
}

async function readBody(response: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = await response.json();
    return typeof body === "object" && body !== null ? { ...body } : {};
  } catch {
    return {};
  }
}

/** What people read when better-auth holds them back. */
export const tooManyAttempts = ({ retryAfterSeconds }: AuthAnswer): string =>
  `Too many attempts. Try again in ${waitText(retryAfterSeconds ?? 60)}.`;

const waitText = (seconds: number) => (seconds < 120 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`);
