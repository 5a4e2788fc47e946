import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "./errors.ts";

interface Route {
  methods: readonly string[];
  pattern: RegExp;
}

/** What the path of a route matches: ":name" is one part of a path, "*" is any rest. */
const patternOf = (path: string): RegExp =>
  new RegExp(
    `^${path
      .replaceAll(/[.+?^$|()[\]{}\\]/g, "\\$&")
      .replaceAll(/:[A-Za-z]+/g, "[^/]+")
      .replaceAll("*", ".*")}$`,
  );

/**
 * Answers whatever no route does: 405 when the address exists under another method, else 404. To be created before the
 * routes. What asks before it sends (OPTIONS) is refused like any other method that is not there, and gets no header
 * that lets another origin in.
 */
export function createNotFound(app: FastifyInstance): (request: FastifyRequest, reply: FastifyReply) => never {
  const routes: Route[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    routes.push({ methods: [method].flat(), pattern: patternOf(url) });
  });
  return (request, reply) => {
    const [path = ""] = request.url.split("?", 1);
    const methods = routes.filter(({ pattern }) => pattern.test(path)).flatMap((route) => route.methods);
    if (methods.length === 0) throw new ApiError("NOT_FOUND", { message: "There is nothing at this address." });
    reply.header("allow", [...new Set(methods)].sort().join(", "));
    throw new ApiError("METHOD_NOT_ALLOWED");
  };
}
