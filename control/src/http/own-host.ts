import type { FastifyInstance, FastifyRequest } from "fastify";
import { ApiError } from "./errors.ts";
import { apiPrefix, authBasePath } from "./paths.ts";

/** The name in a Host header, without its port. */
const nameOf = (host: string): string => host.replace(/:\d+$/, "").toLowerCase();

/**
 * Whether a request was sent to the API's own name. The port is not compared: proxies tend to leave it out, and a page
 * of another name is what this is about.
 */
export const isOwnHost = (host: string | undefined, ownOrigin: string): boolean =>
  host !== undefined && nameOf(host) === new URL(ownOrigin).hostname.toLowerCase();

/**
 * Pages, and calls that a session's cookie goes with, exist under the API's own name alone: a name that somebody else
 * points at our address brings neither. Programs may use any name that leads here (a service's internal one, an
 * address) as long as they bring a credential in a header, and so may whoever asks whether the process is well.
 */
export function requireOwnHost(app: FastifyInstance, apiUrl: string): void {
  const isOwn = rememberLast((host: string | undefined) => isOwnHost(host, apiUrl));
  app.addHook("onRequest", (request, _reply, done) => {
    if (isOwn(request.headers.host) || isForAnyName(request)) return done();
    const message = `This is ${apiUrl} under another name. Use that address; a proxy in between must pass on the header host.`;
    done(new ApiError("BAD_REQUEST", { status: 421, message }));
  });
}

function isForAnyName({ url, is404, headers }: FastifyRequest): boolean {
  if (is404 || url.startsWith(`${apiPrefix}/`) || url === "/healthz" || url === "/readyz") return true;
  return url.startsWith(`${authBasePath}/`) && headers.cookie === undefined;
}

/** Most requests have the host of the one before. */
function rememberLast<A, R>(decide: (argument: A) => R): (argument: A) => R {
  let last: { argument: A; result: R } | null = null;
  return (argument) => {
    if (last === null || last.argument !== argument) last = { argument, result: decide(argument) };
    return last.result;
  };
}
