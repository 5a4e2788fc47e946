import { hash, timingSafeEqual } from "node:crypto";
import { limits } from "@svc/proto";
import { accountPrefix } from "@svc/proto/cluster-registry";
import { isDigest } from "@svc/proto/image";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { ApiError } from "../../http/errors.ts";
import { readJson } from "../../http/json.ts";
import { apiPrefix } from "../../http/paths.ts";
import type { TenantContext } from "../context.ts";
import { nameOf } from "./rules.ts";
import { noteManifest } from "./store.ts";

/** What registries send of what was done there. */
const eventsType = "application/vnd.docker.distribution.events.v1+json";

const isId = (text: string): boolean => z.uuid().safeParse(text).success;

const envelope = z.looseObject({
  events: z.array(
    z.looseObject({
      action: z.string(),
      target: z.looseObject({ repository: z.string().default(""), digest: z.string().default("") }),
    }),
  ),
});

/**
 * Where the registry tells what was pushed. It lists tags and nothing else, so of a manifest that was put by its digest
 * alone control learns here only. What is told is noted and believed no further: it is looked for in the registry.
 */
export function mountRegistryEvents(app: FastifyInstance, { config, db }: Pick<TenantContext, "config" | "db">): void {
  const { eventsSecret } = config.registry;
  if (eventsSecret === null) return;
  const digestOf = (text: string) => hash("sha256", text, "buffer");
  const expected = digestOf(`Bearer ${eventsSecret}`);
  app.register(async (scope) => {
    scope.addContentTypeParser(
      eventsType,
      { parseAs: "buffer", bodyLimit: limits.jsonBodyBytesMax },
      (_request, body, done) => {
        const result = readJson(body as Buffer);
        if ("problem" in result) done(new ApiError("BAD_REQUEST", { message: result.problem }), undefined);
        else done(null, result.value);
      },
    );
    scope.route({
      method: "POST",
      url: `${apiPrefix}/registry/events`,
      // Nothing of the body is read for somebody else.
      onRequest: async ({ headers }) => {
        if (!timingSafeEqual(digestOf(headers.authorization ?? ""), expected)) throw new ApiError("UNAUTHORIZED");
      },
      handler: async ({ body }, reply) => {
        const { success, data } = envelope.safeParse(body);
        if (!success) throw new ApiError("BAD_REQUEST", { message: "The body is no list of events." });
        for (const { action, target } of data.events) {
          const userId = target.repository.slice(accountPrefix.length).split("/")[0] ?? "";
          const name = isId(userId) ? nameOf(userId, target.repository) : null;
          if (action === "push" && name !== null && isDigest(target.digest))
            await noteManifest(db, userId, name, target.digest);
        }
        return reply.status(204).send();
      },
    });
  });
}
