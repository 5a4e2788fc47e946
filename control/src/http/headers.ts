import type { FastifyInstance } from "fastify";

/** For replies that are data: nothing in them may run, be framed, or be kept by a shared cache. */
const dataPolicy = "default-src 'none'; frame-ancestors 'none'";

/** Headers of every reply, also of those that never reach the framework. */
export type SecurityHeaders = Readonly<Record<string, string>>;

/** `secure`: the API is reached over TLS alone. There is no header that lets another origin read anything. */
export const securityHeaders = ({ secure }: { secure: boolean }): SecurityHeaders => ({
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "content-security-policy": dataPolicy,
  "cache-control": "no-store",
  ...(secure && { "strict-transport-security": "max-age=31536000" }),
});

/** Pages replace the policy and the caching with their own. */
export function addSecurityHeaders(app: FastifyInstance, headers: SecurityHeaders): void {
  app.addHook("onRequest", (request, reply, done) => {
    reply.headers({ ...headers }).header("x-request-id", request.id);
    done();
  });
}
