import type { FastifyReply, FastifyRequest } from "fastify";
import { apiPrefix } from "./api.ts";
import type { Endpoint } from "./endpoint.ts";
import { ApiError } from "./errors.ts";

/** Answers whatever no route does: 405 when the address exists under another method, else 404. */
export function createNotFound(
  endpoints: readonly Endpoint[],
): (request: FastifyRequest, reply: FastifyReply) => never {
  const routes = endpoints.map(({ method, path }) => ({
    method,
    pattern: new RegExp(`^${apiPrefix}${path.replaceAll(/:[A-Za-z]+/g, "[^/]+")}$`),
  }));
  return (request, reply) => {
    const [path = ""] = request.url.split("?", 1);
    const methods = routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    if (methods.length === 0) throw new ApiError("NOT_FOUND", { message: "There is nothing at this address." });
    reply.header("allow", [...new Set(methods)].join(", "));
    throw new ApiError("METHOD_NOT_ALLOWED");
  };
}
