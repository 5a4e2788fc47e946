import type { Egress } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController } from "fastify";
import { authorityEndpoints } from "./fleet/ca/rotation/endpoints.ts";
import { addressSet } from "./fleet/images/address-set.ts";
import { createWebhookEgress } from "./fleet/images/egress.ts";
import { createReferencePolicy, type ReferencePolicy, referenceRules } from "./fleet/images/reference.ts";
import { systemAddresses } from "./fleet/images/resolve.ts";
import { nodeEndpoints } from "./fleet/nodes/endpoints.ts";
import { placementEndpoints } from "./fleet/scheduler/endpoints.ts";
import { registerEndpoints } from "./http/api.ts";
import { auditRequests } from "./http/audit-requests.ts";
import { boundBodies } from "./http/body-time.ts";
import { createCallers } from "./http/callers.ts";
import { createConnections } from "./http/connections.ts";
import type { Endpoint } from "./http/endpoint.ts";
import { errorSender } from "./http/error-handler.ts";
import { createGuesses } from "./http/guesses.ts";
import { addSecurityHeaders, securityHeaders } from "./http/headers.ts";
import { registerHealth } from "./http/health.ts";
import { createOnceIn } from "./http/idempotency.ts";
import { createNotFound } from "./http/not-found.ts";
import { describeApi } from "./http/openapi.ts";
import { requireOwnHost } from "./http/own-host.ts";
import { apiPrefix } from "./http/paths.ts";
import { createRateLimit } from "./http/rate-limit.ts";
import { type Timing, usualTiming } from "./http/timing.ts";
import { createUpgrades } from "./http/upgrades.ts";
import { accountEndpoints } from "./identity/accounts/endpoints.ts";
import { createAuth } from "./identity/auth/auth.ts";
import { mountAuth } from "./identity/auth/mount.ts";
import { githostEndpoints } from "./identity/githost/endpoints.ts";
import { inviteEndpoints } from "./identity/invites/endpoints.ts";
import { registerPages, sendNotFoundPage, wantsPage } from "./identity/pages/register.ts";
import { planEndpoints } from "./identity/plans/endpoints.ts";
import { tokenEndpoints } from "./identity/tokens/endpoints.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { accountRegistryEndpoints } from "./tenants/account-registry/endpoints.ts";
import { mountRegistryEvents } from "./tenants/account-registry/events.ts";
import { mountRegistryTokens } from "./tenants/account-registry/token.ts";
import { adminEndpoints } from "./tenants/admin/endpoints.ts";
import { alertEndpoints } from "./tenants/alerts/endpoints.ts";
import { analyticsEndpoints } from "./tenants/analytics/endpoints.ts";
import type { TenantContext } from "./tenants/context.ts";
import { databaseEndpoints } from "./tenants/databases/endpoints.ts";
import { createPlaces } from "./tenants/databases/tunnel/places.ts";
import { deploymentEndpoints } from "./tenants/deployments/endpoints.ts";
import { createUploads, type Uploads } from "./tenants/deployments/upload/slots.ts";
import { domainEndpoints } from "./tenants/domains/endpoints.ts";
import { envEndpoints } from "./tenants/env/endpoints.ts";
import { jobEndpoints } from "./tenants/jobs/endpoints.ts";
import { metricsEndpoints } from "./tenants/metrics/endpoints.ts";
import { projectEndpoints } from "./tenants/projects/endpoints.ts";
import { registryCredentialEndpoints } from "./tenants/registries/endpoints.ts";
import { renameEndpoints } from "./tenants/rename/endpoints.ts";
import { runtimeLogEndpoints } from "./tenants/runtime-logs/endpoints.ts";
import { suspensionEndpoints } from "./tenants/suspension/endpoints.ts";

/** How long closing waits for requests that are being answered. */
const closeTimeoutMs = 10_000;
/** Longer than any address can be, so that who may call is asked before what an id is. */
const maxUrlParamLength = 64 * 1024;
/** Connections of tools to databases through this replica; those of one owner. */
const tunnelPlaces = { total: 64, perKey: 16 };

/** Every endpoint of the API, in the order of its description. */
export const apiEndpoints: readonly Endpoint<TenantContext>[] = [
  ...accountEndpoints,
  ...githostEndpoints,
  ...inviteEndpoints,
  ...tokenEndpoints,
  ...projectEndpoints,
  ...renameEndpoints,
  ...deploymentEndpoints,
  ...envEndpoints,
  ...databaseEndpoints,
  ...jobEndpoints,
  ...domainEndpoints,
  ...registryCredentialEndpoints,
  ...accountRegistryEndpoints,
  ...runtimeLogEndpoints,
  ...metricsEndpoints,
  ...analyticsEndpoints,
  ...alertEndpoints,
  ...nodeEndpoints,
  ...placementEndpoints,
  ...authorityEndpoints,
  ...adminEndpoints,
  ...planEndpoints,
  ...suspensionEndpoints,
];

/** What the server is given: all that handlers are, but for what it makes itself. */
export type ServerContext = Omit<
  TenantContext,
  "auth" | "references" | "webhookEgress" | "uploads" | "upgrades" | "takeTunnelPlace" | "createOnce"
>;

export interface ServerParts {
  /** How image references are judged; by the installation's own policy unless a test says otherwise. */
  references?: ReferencePolicy;
  /** Where webhooks may lead; to the public internet and what the settings name unless a test says otherwise. */
  webhookEgress?: Egress;
  /** How uploads are bounded; as everywhere unless a test says otherwise. */
  uploads?: Uploads;
  /** Served besides those of the API. */
  endpoints?: readonly Endpoint<TenantContext>[];
  /** Changes of how long a client may take. */
  timing?: Partial<Timing>;
  /** Counts requests. */
  metrics?: Pick<Metrics, "httpRequests" | "httpSeconds">;
  /** Wrong credentials per client and minute; as everywhere unless a test says otherwise. */
  wrongPerMinuteMax?: number;
}

/** The HTTP server: API, identity and pages. Not listening yet; `close()` also closes what it opened for itself. */
export function buildServer(context: ServerContext, parts: ServerParts = {}): FastifyInstance {
  const { clock, random, config, db, log, mailer } = context;
  const endpoints = [...apiEndpoints, ...(parts.endpoints ?? [])];
  const auth = createAuth({ clock, config, db, log, mailer });
  const callers = createCallers({ clock, databaseUrl: config.databaseUrl, db, log });
  const rateLimit = createRateLimit({ clock, db, log });
  const security = securityHeaders({ secure: config.apiUrl.startsWith("https:") });
  const timing = { ...usualTiming, ...parts.timing };
  const upgrades = createUpgrades({ clock, apiUrl: () => config.apiUrl }, endpoints);
  const api: TenantContext = {
    ...context,
    auth,
    references: parts.references ?? createReferencePolicy(clock, referenceRules(config)),
    webhookEgress: parts.webhookEgress ?? createWebhookEgress(clock, systemAddresses, addressSet(config.webhookAllow)),
    uploads: parts.uploads ?? createUploads(clock),
    upgrades,
    takeTunnelPlace: createPlaces(tunnelPlaces),
    createOnce: createOnceIn(clock, db),
  };

  const sendError = errorSender(clock);
  const app: FastifyInstance = fastify({
    loggerInstance: log.child({ part: "http" }) as FastifyBaseLogger,
    // Requests are logged below, in one line each.
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => random.uuid(),
    requestIdHeader: false,
    // These tell the client's address; nobody else is believed.
    trustProxy: config.trustProxy,
    forceCloseConnections: "idle",
    // Who still comes while the server closes is answered as ever, and the connection is closed.
    return503OnClosing: false,
    routerOptions: { maxParamLength: maxUrlParamLength, caseSensitive: true, ignoreTrailingSlash: false },
    ...createConnections({ timing, security, isUpgrade: upgrades.isWanted, log: log.child({ part: "http" }) }),
    frameworkErrors: (error, request, reply) => sendError(error, request, reply.headers(security)),
  });
  upgrades.serve(app.server);
  app.addHook("preClose", async () => upgrades.end());
  // Each part of the server reads the types that it knows. What is for nobody is answered unread.
  app.removeAllContentTypeParsers();
  app.setErrorHandler(sendError);
  const notFound = createNotFound(app);
  app.setNotFoundHandler((request, reply) =>
    wantsPage(request) ? sendNotFoundPage(api, reply) : notFound(request, reply),
  );
  addSecurityHeaders(app, security);
  requireOwnHost(app, config.apiUrl);
  boundBodies(app, clock, timing);
  logRequests(app, log);
  if (parts.metrics !== undefined) countRequests(app, parts.metrics);
  auditRequests(app, context);
  registerHealth(app, clock, db);
  const guesses = createGuesses(parts.wrongPerMinuteMax);
  const authentication = { context, callers, guesses, rateLimit };
  registerEndpoints(app, api, authentication, endpoints);
  mountRegistryTokens(app, context, authentication);
  mountRegistryEvents(app, context);
  const description = JSON.stringify(describeApi(endpoints, config.apiUrl));
  app.get(`${apiPrefix}/openapi.json`, async (_request, reply) =>
    reply.type("application/json; charset=utf-8").send(description),
  );
  mountAuth(app, { auth, config, db });
  registerPages(app, api, endpoints);
  boundClose(app, clock);
  app.addHook("onClose", async () => {
    await rateLimit[Symbol.asyncDispose]();
    await callers[Symbol.asyncDispose]();
    await auth[Symbol.asyncDispose]();
  });
  return app;
}

/** Whoever is still being answered when the server closes gets a moment; an upload could take a quarter of an hour. */
function boundClose(app: FastifyInstance, clock: Clock): void {
  let isClosing = false;
  app.addHook("preClose", async () => {
    isClosing = true;
    const timer = clock.after(closeTimeoutMs, () => app.server.closeAllConnections()).unref();
    app.server.once("close", () => timer[Symbol.dispose]());
  });
  // Nobody may keep a connection for a next request: the whole moment would pass with nothing to wait for.
  app.addHook("onSend", async (_request, reply) => {
    if (isClosing) reply.header("connection", "close");
  });
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
