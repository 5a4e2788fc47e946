import type { FastifyInstance } from "fastify";

/** For replies that are data: nothing in them may run, be framed, or be kept by a shared cache. */
const dataPolicy = "default-src 'none'; frame-ancestors 'none'";

/** Headers of every reply. Pages replace the policy and the caching with their own. */
export function addSecurityHeaders(app: FastifyInstance, { secure }: { secure: boolean }): void {
  app.addHook("onRequest", async (request, reply) => {
    reply.headers({
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "cross-origin-resource-policy": "same-origin",
      "cross-origin-opener-policy": "same-origin",
      "content-security-policy": dataPolicy,
      "cache-control": "no-store",
      "x-request-id": request.id,
      ...(secure && { "strict-transport-security": "max-age=31536000" }),
    });
  });
}
