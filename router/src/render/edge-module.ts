import { gateDirName } from "../names.ts";
import { passwordPath } from "../password/next.ts";
import { cookieName, tokenPattern } from "../password/token.ts";
import { insideRoutes } from "./gate-routes.ts";
import type { CaddyRoute, JsonObject } from "./json.ts";
import { errorRoutes } from "./page-routes.ts";
import { forwardedNames, routesOfKinds, type SiteOptions } from "./site-routes.ts";

/** What `caddy list-modules` calls it. */
export const edgeModule = "http.handlers.svc_edge";

/** Where the module hears what hosts serve: beside the administration's socket, which only Caddy and the router may reach. */
export const tableSocketOf = (adminSocket: string): string => `${adminSocket}.table`;

export interface EdgeModuleOptions extends SiteOptions {
  adminSocket: string;
  /** Absolute path of the directory for the log of visits, best in memory. */
  trafficDir: string;
  logsVisits: boolean;
}

const argumentAt = (nth: number): string => `{svc.argument.${nth}}`;

/**
 * Answers every request of a server, and counts it. Hosts whose target the module has in memory go straight to what serves
 * them; all the rest, whatever it may be, goes the way of a Caddy without the module.
 *
 * @param before routes that come before every site
 * @param otherwise all routes of a Caddy without the module
 */
export const edgeHandler = (
  options: EdgeModuleOptions,
  { before, otherwise }: { before: CaddyRoute[]; otherwise: CaddyRoute[] },
): JsonObject => ({
  handler: "svc_edge",
  table: options.tableDir,
  socket: tableSocketOf(options.adminSocket),
  visits: options.trafficDir,
  logs_visitors: options.logsVisits,
  aside: [passwordPath],
  strip: [...forwardedNames],
  gate: {
    dir: `${options.tableDir}/${gateDirName}`,
    cookie: cookieName,
    token: tokenPattern,
    passed: insideRoutes(),
  },
  kinds: Object.fromEntries(
    Object.entries(routesOfKinds(options, argumentAt)).map(([kind, routes]) => [kind, [...before, ...routes]]),
  ),
  otherwise,
  errors: { routes: errorRoutes() },
});
