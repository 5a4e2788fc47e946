import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController } from "fastify";
import { accountEndpoints } from "../accounts/endpoints.ts";

import { createAuth } from "../auth/auth.ts";
import { mountAuth } from "../auth/mount.ts";
import type { Context } from "../context.ts";
import { deploymentEndpoints } from "../deployments/endpoints.ts";
import { createReferencePolicy, type ReferencePolicy, referenceRules } from "../deployments/oci/reference.ts";
import { createUploads, type Uploads } from "../deployments/upload/slots.ts";
import { envEndpoints } from "../env/endpoints.ts";
import { createMailer } from "../mail/mailer.ts";
import { nodeEndpoints } from "../nodes/endpoints.ts";
import { registerPages, sendNotFoundPage, wantsPage } from "../pages/register.ts";
import { projectEndpoints } from "../projects/endpoints.ts";
import { registryCredentialEndpoints } from "../registries/endpoints.ts";
import { runtimeLogEndpoints } from "../runtime-logs/endpoints.ts";
import { tokenEndpoints } from "../tokens/endpoints.ts";
import { apiPrefix, registerEndpoints } from "./api.ts";
import { answerClientError } from "./client-error.ts";
import type { ApiContext, Endpoint } from "./endpoint.ts";
import { sendError } from "./error-handler.ts";
import { addSecurityHeaders } from "./headers.ts";
import { registerHealth } from "./health.ts";
import { createNotFound } from "./not-found.ts";
import { describeApi } from "./openapi.ts";
import { createRateLimit } from "./rate-limit.ts";

/** An upload may take this long to arrive; endpoints without one have 30 s, see api.ts. */
const requestTimeoutMs = 15 * 60_000;
const headersTimeoutMs = 15_000;
/** A connection on which nothing moves. */
const idleTimeoutMs = 120_000;
const keepAliveTimeoutMs = 65_000;
/** How long closing waits for requests that are being answered. */
const closeTimeoutMs = 10_000;
const maxHeaderBytes = 16 * 1024;
const maxUrlParamLength = 100;

/** Every endpoint of the API, in the order of its description. */
export const apiEndpoints: readonly Endpoint[] = [
  ...accountEndpoints,
  ...tokenEndpoints,
  ...projectEndpoints,
  ...deploymentEndpoints,
  ...envEndpoints,
  ...registryCredentialEndpoints,
  ...runtimeLogEndpoints,
  ...nodeEndpoints,
];

export interface ServerParts {
  /** How image references are judged; by the installation's own policy unless a test says otherwise. */
  references?: ReferencePolicy;
  /** How uploads are bounded; as everywhere unless a test says otherwise. */
  uploads?: Uploads;
}

/** The HTTP server: API, identity and pages. Not listening yet; `close()` also closes what it opened for itself. */
export function buildServer(context: Context, parts: ServerParts = {}): FastifyInstance {
  const { config, log, now } = context;
  const mailer = createMailer(config.mail, now);
  const auth = createAuth({ config, log, mailer });
  const api: ApiContext = {
    ...context,
    auth,
    mailer,
    references: parts.references ?? createReferencePolicy(referenceRules(config)),
    uploads: parts.uploads ?? createUploads(),
  };

  const app: FastifyInstance = fastify({
    loggerInstance: log.child({ part: "http" }) as FastifyBaseLogger,
    // Requests are logged below, in one line each.
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => context.newId(),
    requestIdHeader: false,
    // A reverse proxy on this machine tells the client's address; nobody else is believed.
    trustProxy: "loopback",
    requestTimeout: requestTimeoutMs,
    connectionTimeout: idleTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    forceCloseConnections: "idle",
    routerOptions: { maxParamLength: maxUrlParamLength, caseSensitive: true, ignoreTrailingSlash: false },
    http: { maxHeaderSize: maxHeaderBytes, headersTimeout: headersTimeoutMs, keepAliveTimeoutBuffer: 1_000 },
    clientErrorHandler: answerClientError,
    frameworkErrors: sendError,
  });
  app.setErrorHandler(sendError);
  const notFound = createNotFound(apiEndpoints);
  app.setNotFoundHandler((request, reply) =>
    wantsPage(request) ? sendNotFoundPage(api, reply) : notFound(request, reply),
  );
  addSecurityHeaders(app, { secure: config.apiUrl.startsWith("https:") });
  logRequests(app);
  registerHealth(app, context.db);
  registerEndpoints(app, api, { context, rateLimit: createRateLimit() }, apiEndpoints);
  const description = JSON.stringify(describeApi(apiEndpoints, config.apiUrl));
  app.get(`${apiPrefix}/openapi.json`, async (_request, reply) =>
    reply.type("application/json; charset=utf-8").send(description),
  );
  mountAuth(app, auth, config);
  registerPages(app, api, apiEndpoints);
  app.addHook("preClose", async () => {
    // Whoever is still being answered gets a moment; an upload could take a quarter of an hour.
    const timer = setTimeout(() => app.server.closeAllConnections(), closeTimeoutMs).unref();
    app.server.once("close", () => clearTimeout(timer));
  });
  app.addHook("onClose", async () => {
    mailer?.close();
    await auth[Symbol.asyncDispose]();
  });
  return app;
}

/** One line per request: reads are details, changes and refusals are news. */
function logRequests(app: FastifyInstance): void {
  app.addHook("onResponse", async (request, reply) => {
    const level = request.method === "GET" && reply.statusCode < 400 ? "debug" : "info";
    request.log[level](
      {
        method: request.method,
        // The pattern and not the address: addresses carry ids and codes.
        route: request.routeOptions.url ?? null,
        status: reply.statusCode,
        durationMs: Math.round(reply.elapsedTime),
        address: request.ip,
        ...(request.caller && { userId: request.caller.userId, tokenId: request.caller.tokenId }),
      },
      "request",
    );
  });
}
