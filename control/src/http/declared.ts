import { type ErrorCode, errorStatus } from "@svc/proto";
import type { Access } from "./access.ts";
import type { Endpoint, HandlerError } from "./endpoint.ts";

/** A refusal as it leaves the server. */
export interface DeclaredError {
  status: number;
  code: ErrorCode;
}

const usual = (...codes: ErrorCode[]): DeclaredError[] => codes.map((code) => ({ status: errorStatus(code), code }));

/** What the choke point may answer before the handler is asked. */
function accessErrors(access: Access): DeclaredError[] {
  if (access === "none") return [];
  switch (access) {
    case "session":
      return usual("UNAUTHORIZED", "SESSION_REQUIRED", "RATE_LIMITED");
    case "admin":
      return usual("UNAUTHORIZED", "FORBIDDEN", "FORBIDDEN_SCOPE", "RATE_LIMITED");
    default:
      return usual("UNAUTHORIZED", "FORBIDDEN_SCOPE", "RATE_LIMITED");
  }
}

/** What reading a request's body may end in; GET has none. `VALIDATION` is also the answer to a bad Idempotency-Key. */
function bodyErrors({ badBody, upload }: Endpoint): DeclaredError[] {
  return [
    ...usual(badBody, "VALIDATION", "BAD_REQUEST", "BODY_TOO_LARGE"),
    { status: 408, code: "BAD_REQUEST" },
    ...(upload ? usual("UPLOAD_TOO_LARGE", "RATE_LIMITED") : []),
  ];
}

const ofHandler = (error: HandlerError): DeclaredError =>
  typeof error === "string" ? { status: errorStatus(error), code: error } : error;

/**
 * Every refusal that a call of `spec` may end in: what its handler names, and what follows from the rest of it.
 * By status, then by code; each once.
 */
export function declaredErrors(spec: Endpoint): DeclaredError[] {
  const changes = spec.method !== "GET";
  const all = [
    ...accessErrors(spec.access),
    // A page elsewhere, with the visitor's cookie.
    ...(changes && spec.access !== "none" ? usual("FORBIDDEN") : []),
    ...(spec.params === null ? [] : usual("NOT_FOUND")),
    // A parameter in the address that the call does not have.
    ...usual(spec.badQuery),
    ...(changes ? bodyErrors(spec) : []),
    ...spec.errors.map(ofHandler),
    ...usual("INTERNAL", "UNAVAILABLE"),
  ];
  const byName = new Map(all.map((error) => [`${error.status} ${error.code}`, error]));
  return [...byName.values()].sort((a, b) => a.status - b.status || (a.code < b.code ? -1 : 1));
}

/** Whether a reply of `status` with `code` was to be expected of `spec`. */
export const isDeclared = (spec: Endpoint, status: number, code: string): boolean =>
  declaredErrors(spec).some((error) => error.status === status && error.code === code);
