import type { OutgoingHttpHeaders } from "node:http";
import type { Clock, Timer } from "@svc/runtime/clock";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { clientRefusal, refusalParts } from "./client-error.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Timing } from "./timing.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Ends a request whose body does not arrive. */
    bodyTimer: Timer | null;
  }
}

const isUpload = (request: FastifyRequest) =>
  (request.routeOptions.config as { endpoint?: Endpoint } | undefined)?.endpoint?.upload ?? false;

const hasBody = ({ headers }: FastifyRequest) =>
  headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";

/**
 * Bounds how long a connection can be held by a body that does not arrive, whether or not anybody waits for it:
 * before the answer a body has `bodyMs`, except of uploads; what is still missing when the answer is out has `lingerMs`.
 */
export function boundBodies(
  app: FastifyInstance,
  clock: Clock,
  { bodyMs, lingerMs }: Pick<Timing, "bodyMs" | "lingerMs">,
): void {
  app.decorateRequest("bodyTimer", null);
  app.addHook("onRequest", (request, reply, done) => {
    if (hasBody(request) && !isUpload(request))
      request.bodyTimer = clock.after(bodyMs, () => answerLate(reply)).unref();
    done();
  });
  app.addHook("preHandler", (request, _reply, done) => {
    stopTimer(request);
    done();
  });
  app.addHook("onResponse", (request, _reply, done) => {
    stopTimer(request);
    if (hasBody(request) && !request.raw.complete) closeUnlessComplete(clock, request, lingerMs);
    done();
  });
}

function stopTimer(request: FastifyRequest): void {
  request.bodyTimer?.[Symbol.dispose]();
  request.bodyTimer = null;
}

/** Past the framework, which still waits for the body: with an answer out, it no longer calls the handler. */
function answerLate(reply: FastifyReply): void {
  if (reply.raw.headersSent) return;
  const refusal = clientRefusal("ERR_HTTP_REQUEST_TIMEOUT");
  const { headers, body } = refusalParts(refusal, {});
  reply.raw.writeHead(refusal.status, { ...reply.getHeaders(), ...headers } as OutgoingHttpHeaders).end(body);
}

function closeUnlessComplete(clock: Clock, { raw }: FastifyRequest, lingerMs: number): void {
  const timer = clock.after(lingerMs, () => raw.complete || raw.destroy()).unref();
  const callOff = () => timer[Symbol.dispose]();
  raw.once("end", callOff).once("close", callOff);
}
