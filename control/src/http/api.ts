import fastifyMultipart from "@fastify/multipart";
import { limits, validationCode, validationMessage, versionHeader } from "@svc/proto";
import { version } from "@svc/runtime/version";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { type Authentication, authenticate } from "./authenticate.ts";
import type { Caller } from "./caller.ts";
import type { Endpoint, FileReply } from "./endpoint.ts";
import { otherContentType } from "./error-handler.ts";
import { ApiError } from "./errors.ts";
import { addressProblem, readJson, repeatedProblem, withoutRepeats } from "./json.ts";
import { apiPrefix } from "./paths.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set as soon as it is known, also where it may not do what it asks. */
    caller: Caller | null;
  }
}

/** Serves every endpoint below `apiPrefix`. */
export function registerEndpoints<C>(
  app: FastifyInstance,
  context: C,
  authentication: Authentication,
  endpoints: readonly Endpoint<C>[],
): void {
  app.decorateRequest("caller", null);
  const ordinary = endpoints.filter((each) => !each.upload);
  const uploads = endpoints.filter((each) => each.upload && each.uploadType === null);
  const streams = endpoints.filter((each) => each.upload && each.uploadType !== null);
  void app.register(
    async (scope) => {
      acceptJson(scope);
      for (const each of ordinary) registerEndpoint(scope, context, authentication, each);
      void scope.register(async (uploadScope) => {
        // The handler sets the limits of each request; these only bound what it forgot.
        await uploadScope.register(fastifyMultipart, {
          limits: { parts: 8, files: 1, fields: 8, fieldNameSize: 100 },
          throwFileSizeLimit: false,
        });
        for (const each of uploads) registerEndpoint(uploadScope, context, authentication, each);
      });
      for (const each of streams) {
        void scope.register(async (streamScope) => {
          acceptStream(streamScope, each.uploadType ?? "");
          registerEndpoint(streamScope, context, authentication, each);
        });
      }
    },
    { prefix: apiPrefix },
  );
}

/** JSON is the only type of body; an empty one is no body at all, whatever its type says. */
function acceptJson(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(
    "application/json",
    { parseAs: "buffer", bodyLimit: limits.jsonBodyBytesMax },
    (request, body, done) => {
      const result = readJson(body as Buffer);
      if ("problem" in result) done(new ApiError(badBodyOf(request), { message: result.problem }), undefined);
      else done(null, result.value);
    },
  );
  scope.addContentTypeParser("*", (request, _, done) => {
    const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
    // curl and others say a type of their own of a body that is none.
    if (length === "0" && encoding === undefined) done(null, undefined);
    else done(new ApiError(badBodyOf(request), { message: otherTypeMessage(endpointOf(request)) }), undefined);
  });
}

/** Bytes of one type, which the handler reads as they come. */
function acceptStream(scope: FastifyInstance, type: string): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(type, (_, __, done) => done(null));
}

const endpointOf = (request: FastifyRequest) => (request.routeOptions.config as { endpoint?: Endpoint }).endpoint;
const badBodyOf = (request: FastifyRequest) => endpointOf(request)?.badBody ?? "VALIDATION";

function otherTypeMessage(spec: Endpoint | undefined): string {
  if (spec === undefined || spec.upload) return otherContentType.message;
  return spec.body === null ? noBody : "Send the body as JSON, with Content-Type: application/json.";
}

function registerEndpoint<C>(
  scope: FastifyInstance,
  context: C,
  authentication: Authentication,
  spec: Endpoint<C>,
): void {
  scope.route({
    method: spec.method,
    url: spec.path,
    config: { endpoint: spec },
    // Nothing of the body is read for a caller who may not send it.
    onRequest: async (request) => {
      await authenticate(authentication, spec.access, request);
    },
    handler: (request, reply) => answer(context, spec, request, reply),
  });
}

async function answer<C>(
  context: C,
  spec: Endpoint<C>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (addressProblem(request.params) !== null) throw new ApiError("NOT_FOUND");
  const query = withoutRepeats(request.query);
  const problem = addressProblem(query) ?? repeatedProblem(query);
  if (problem !== null) throw badQuery(spec, problem);
  const payload = await spec.handle(context, {
    caller: request.caller,
    // An id that cannot exist is an id that does not exist.
    params: read(spec.params, request.params, () => new ApiError("NOT_FOUND")),
    query: readQuery(spec, query),
    body: spec.upload ? undefined : readBody(spec, request.body),
    address: request.ip,
    // Reading is repeatable as it is.
    idempotencyKey: spec.method === "GET" ? null : idempotencyKey(request),
    request,
    reply,
  });
  // The connection is none of ours any more.
  if (reply.sent) return reply;
  if (spec.file !== null) return sendFile(reply, spec.file, payload as FileReply);
  // A reply that does not fit is our bug: it ends as INTERNAL before anything is sent.
  const body = spec.reply.parse({ ok: true, ...payload });
  // For callers who are let in: the command line tells its user when the platform is newer.
  if (request.caller !== null) reply.header(versionHeader, version);
  return reply.status(spec.status).type("application/json; charset=utf-8").send(JSON.stringify(body));
}

/** It is nobody's page, whatever it holds: browsers put it on the disk, and take it for nothing but what it is said to be. */
function sendFile(
  reply: FastifyReply,
  usual: string,
  { stream, sizeBytes, filename, type = usual, etag }: FileReply,
): FastifyReply {
  const kept = etag !== undefined && reply.request.headers["if-none-match"] === `"${etag}"`;
  // Who asks for the headers alone gets no byte of it, also not from where it is kept.
  if (kept || reply.request.method === "HEAD") stream.destroy();
  reply
    .header("x-content-type-options", "nosniff")
    .header("cache-control", etag === undefined ? "private, no-store" : "private, no-cache")
    .headers(etag === undefined ? {} : { etag: `"${etag}"` });
  if (kept) return reply.status(304).send();
  return reply
    .headers(sizeBytes === null ? {} : { "content-length": sizeBytes })
    .header("content-disposition", `${etag === undefined ? "attachment" : "inline"}; filename="${filename}"`)
    .type(type)
    .send(stream);
}

function read(schema: z.ZodType | null, value: unknown, refusal: (error: z.ZodError) => ApiError): unknown {
  if (schema === null) return undefined;
  const result = schema.safeParse(value);
  if (!result.success) throw refusal(result.error);
  return result.data;
}

const noQuery = z.strictObject({});

/** A call whose query says nothing has none: a parameter that nobody reads would be one that is misspelt. */
function readQuery(spec: Endpoint, value: unknown): unknown {
  const schema = spec.query ?? noQuery;
  const query = read(schema, value, ({ issues }) => badQuery(spec, validationMessage(issues, schema)));
  return spec.query === null ? undefined : query;
}

/** Nobody has read the body of an upload by then. */
const badQuery = ({ badQuery: code, upload }: Endpoint, message: string): ApiError =>
  new ApiError(code, { message, closesConnection: upload });

const noBody = "This call has no body.";

/** A call without a body tolerates an empty object, which some clients send, and nothing else. */
function readBody({ body: schema, badBody }: Endpoint, value: unknown): unknown {
  if (schema === null) {
    if (value === undefined || isEmptyObject(value)) return undefined;
    throw new ApiError(badBody, { message: noBody });
  }
  return read(schema, value, ({ issues }) => {
    const code = badBody === "VALIDATION" ? validationCode(issues) : badBody;
    return new ApiError(code, {
      message: value === undefined ? "The body is missing." : validationMessage(issues, schema),
    });
  });
}

const isEmptyObject = (value: unknown) =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;

function idempotencyKey(request: FastifyRequest): string | null {
  const key = request.headers["idempotency-key"];
  if (key === undefined) return null;
  if (typeof key === "string" && /^[\x21-\x7e]+$/.test(key) && key.length <= limits.idempotencyKeyLengthMax) return key;
  throw new ApiError("VALIDATION", {
    message: `Idempotency-Key has 1 to ${limits.idempotencyKeyLengthMax} printable characters.`,
  });
}
