import type { FastifyInstance, FastifyRequest } from "fastify";
import { recordRefusedAdministration, whileAnswering } from "./audit.ts";
import type { Context } from "./context.ts";
import type { Endpoint } from "./endpoint.ts";

/** Has lines of the audit log name the request they come from, and tells of refused administration. */
export function auditRequests(app: FastifyInstance, { db }: Pick<Context, "db">): void {
  app.addHook("preHandler", (request, _reply, done) => whileAnswering(request.id, done));
  app.addHook("onSend", async (request, reply, payload) => {
    const route = reply.statusCode === 403 ? administration(request) : null;
    const { caller, ip: address, id: requestId, log } = request;
    if (route === null || !caller) return payload;
    // What is refused stays refused, and is answered like that.
    await recordRefusedAdministration(db, { caller, address, route, requestId }).catch((error: unknown) =>
      log.warn({ err: error }, "a refused administration is missing in the audit log"),
    );
    return payload;
  });
}

/** The endpoint for administrators that a request is for; null when it is for another one. */
function administration({ routeOptions }: FastifyRequest): string | null {
  const { endpoint } = routeOptions.config as { endpoint?: Endpoint };
  return endpoint?.access === "admin" ? `${endpoint.method} ${endpoint.path}` : null;
}
