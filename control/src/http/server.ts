import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController } from "fastify";
import { accountRegistryEndpoints } from "../account-registry/endpoints.ts";
import { mountRegistryEvents } from "../account-registry/events.ts";
import { mountRegistryTokens } from "../account-registry/token.ts";
import { accountEndpoints } from "../accounts/endpoints.ts";
import { adminEndpoints } from "../admin/endpoints.ts";
import { createAuth } from "../auth/auth.ts";
import { createCallers } from "../auth/callers.ts";
import { mountAuth } from "../auth/mount.ts";
import { authorityEndpoints } from "../ca/rotation/endpoints.ts";
import type { Context } from "../context.ts";
import { deploymentEndpoints } from "../deployments/endpoints.ts";
import { createReferencePolicy, type ReferencePolicy, referenceRules } from "../deployments/oci/reference.ts";
import { createUploads, type Uploads } from "../deployments/upload/slots.ts";
import { envEndpoints } from "../env/endpoints.ts";
import { githostEndpoints } from "../githost/endpoints.ts";
import { inviteEndpoints } from "../invites/endpoints.ts";
import type { Log } from "../log.ts";
import { createMailer } from "../mail/mailer.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { nodeActionEndpoints } from "../nodes/actions/endpoints.ts";
import { nodeEndpoints } from "../nodes/endpoints.ts";
import { registerPages, sendNotFoundPage, wantsPage } from "../pages/register.ts";
import { planEndpoints } from "../plans/endpoints.ts";
import { projectEndpoints } from "../projects/endpoints.ts";
import { suspensionEndpoints } from "../projects/suspension/endpoints.ts";
import { registryCredentialEndpoints } from "../registries/endpoints.ts";
import { runtimeLogEndpoints } from "../runtime-logs/endpoints.ts";
import { placementEndpoints } from "../scheduler/endpoints.ts";
import { tokenEndpoints } from "../tokens/endpoints.ts";
import { apiPrefix, registerEndpoints } from "./api.ts";
import { auditRequests } from "./audit-requests.ts";
import { boundBodies } from "./body-time.ts";
import { createConnections } from "./connections.ts";
import type { ApiContext, Endpoint } from "./endpoint.ts";
import { sendError } from "./error-handler.ts";
import { createGuesses } from "./guesses.ts";
import { addSecurityHeaders, securityHeaders } from "./headers.ts";
import { registerHealth } from "./health.ts";
import { createNotFound } from "./not-found.ts";
import { describeApi } from "./openapi.ts";
import { requireOwnHost } from "./own-host.ts";
import { createRateLimit } from "./rate-limit.ts";
import { type Timing, usualTiming } from "./timing.ts";

/** How long closing waits for requests that are being answered. */
const closeTimeoutMs = 10_000;
const maxUrlParamLength = 100;

/** Every endpoint of the API, in the order of its description. */
export const apiEndpoints: readonly Endpoint[] = [
  ...accountEndpoints,
  ...githostEndpoints,
  ...inviteEndpoints,
  ...tokenEndpoints,
  ...projectEndpoints,
  ...deploymentEndpoints,
  ...envEndpoints,
  ...registryCredentialEndpoints,
  ...accountRegistryEndpoints,
  ...runtimeLogEndpoints,
  ...nodeEndpoints,
  ...nodeActionEndpoints,
  ...placementEndpoints,
  ...authorityEndpoints,
  ...adminEndpoints,
  ...planEndpoints,
  ...suspensionEndpoints,
];

export interface ServerParts {
  /** How image references are judged; by the installation's own policy unless a test says otherwise. */
  references?: ReferencePolicy;
  /** How uploads are bounded; as everywhere unless a test says otherwise. */
  uploads?: Uploads;
  /** Served besides those of the API. */
  endpoints?: readonly Endpoint[];
  /** Changes of how long a client may take. */
  timing?: Partial<Timing>;
  /** Counts requests. */
  metrics?: Pick<Metrics, "httpRequests" | "httpSeconds">;
  /** Wrong credentials per client and minute; as everywhere unless a test says otherwise. */
  wrongPerMinuteMax?: number;
}

/** The HTTP server: API, identity and pages. Not listening yet; `close()` also closes what it opened for itself. */
export function buildServer(context: Context, parts: ServerParts = {}): FastifyInstance {
  const { config, db, log, now } = context;
  const endpoints = [...apiEndpoints, ...(parts.endpoints ?? [])];
  const mailer = createMailer(config.mail, now);
  const auth = createAuth({ config, db, log, mailer });
  const callers = createCallers({ databaseUrl: config.databaseUrl, db, log });
  const rateLimit = createRateLimit({ db, log, now });
  const security = securityHeaders({ secure: config.apiUrl.startsWith("https:") });
  const timing = { ...usualTiming, ...parts.timing };
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
    // These tell the client's address; nobody else is believed.
    trustProxy: config.trustProxy,
    forceCloseConnections: "idle",
    // Who still comes while the server closes is answered as ever, and the connection is closed.
    return503OnClosing: false,
    routerOptions: { maxParamLength: maxUrlParamLength, caseSensitive: true, ignoreTrailingSlash: false },
    ...createConnections({ timing, security, log: log.child({ part: "http" }) }),
    frameworkErrors: (error, request, reply) => sendError(error, request, reply.headers(security)),
  });
  // Each part of the server reads the types that it knows. What is for nobody is answered unread.
  app.removeAllContentTypeParsers();
  app.setErrorHandler(sendError);
  const notFound = createNotFound(app);
  app.setNotFoundHandler((request, reply) =>
    wantsPage(request) ? sendNotFoundPage(api, reply) : notFound(request, reply),
  );
  addSecurityHeaders(app, security);
  requireOwnHost(app, config.apiUrl);
  boundBodies(app, timing);
  logRequests(app, log);
  if (parts.metrics !== undefined) countRequests(app, parts.metrics);
  auditRequests(app, context);
  registerHealth(app, db);
  const guesses = createGuesses(parts.wrongPerMinuteMax);
  const gate = { context, callers, guesses, rateLimit };
  registerEndpoints(app, api, gate, endpoints);
  mountRegistryTokens(app, context, gate);
  mountRegistryEvents(app, context);
  const description = JSON.stringify(describeApi(endpoints, config.apiUrl));
  app.get(`${apiPrefix}/openapi.json`, async (_request, reply) =>
    reply.type("application/json; charset=utf-8").send(description),
  );
  mountAuth(app, { auth, config, db });
  registerPages(app, api, endpoints);
  app.addHook("preClose", async () => {
    // Whoever is still being answered gets a moment; an upload could take a quarter of an hour.
    const timer = setTimeout(() => app.server.closeAllConnections(), closeTimeoutMs).unref();
    app.server.once("close", () => clearTimeout(timer));
  });
  app.addHook("onClose", async () => {
    mailer?.close();
    await rateLimit[Symbol.asyncDispose]();
    await callers[Symbol.asyncDispose]();
    await auth[Symbol.asyncDispose]();
  });
  return app;
}

/** By the pattern of the route, so that no address, and nothing that a client made up, becomes a label. */
function countRequests(app: FastifyInstance, metrics: Pick<Metrics, "httpRequests" | "httpSeconds">): void {
  app.addHook("onResponse", (request, reply, done) => {
    const { url: route = "none" } = request.routeOptions;
    const method = route === "none" ? "any" : request.method;
    metrics.httpRequests.inc({ method, route, status: `${Math.floor(reply.statusCode / 100)}xx` });
    metrics.httpSeconds.observe({ method, route }, reply.elapsedTime / 1000);
    done();
  });
}

/** One line per request: reads are details, changes and refusals are news. */
function logRequests(app: FastifyInstance, log: Log): void {
  app.addHook("onResponse", (request, reply, done) => {
    const level = request.method === "GET" && reply.statusCode < 400 ? "debug" : "info";
    if (!log.isLevelEnabled(level)) return done();
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
    done();
  });
}
