import {
  ciDeployScope,
  deploymentMetadata,
  errorMessage,
  errorReply,
  limits,
  type Scope,
  satisfies,
  scopes,
  sourceManifestSchema,
} from "@svc/proto";
import { z } from "zod";
import type { Access } from "./access.ts";
import { type DeclaredError, declaredErrors } from "./declared.ts";
import type { Endpoint } from "./endpoint.ts";
import { apiPrefix } from "./paths.ts";
import { signInCookieName } from "./sign-in-cookie.ts";

type Json = Record<string, unknown>;

const schemaOf = (schema: z.ZodType, io: "input" | "output"): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    target: "draft-2020-12",
    override({ jsonSchema }) {
      // The format says it; its pattern has 300 characters.
      if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
    },
  });
  return rest;
};

/** What a caller needs, in words. */
export function accessText(access: Access): string {
  switch (access) {
    case "none":
      return "No credential.";
    case "any":
      return "Any credential except a ci:deploy key.";
    case "full":
      return "A session or a full-access key.";
    case "session":
      return "A session.";
    case "admin":
      return "An administrator's session or full-access key.";
    default:
      if (access.and !== undefined) return `Scopes ${access.scope} and ${access.and}, both.`;
      return `Scope ${access.scope}${access.orCiKey ? ", or a ci:deploy key of this project for what it created" : ""}.`;
  }
}

const sessionForms: readonly Json[] = [{ bearer: [] }, { cookie: [] }];

/** Credentials that open the route, each one enough. Of a key the list names what it needs, unless it has full access. */
function security(access: Access): readonly Json[] {
  if (access === "none") return [];
  if (access === "session") return sessionForms;
  if (typeof access === "string") return [{ apiKey: [] }, ...sessionForms];
  const enough = (Object.keys(scopes) as Scope[]).filter((scope) => satisfies([scope], access.scope));
  const { and } = access;
  if (and !== undefined) return [...enough.map((scope) => ({ apiKey: [scope, and] })), ...sessionForms];
  const grants = access.orCiKey ? [...enough, ciDeployScope] : enough;
  return [...grants.map((scope) => ({ apiKey: [scope] })), ...sessionForms];
}

/** Each property of an object schema as one parameter. */
function parameters(schema: z.ZodType | null, place: "path" | "query"): Json[] {
  if (schema === null) return [];
  const { properties = {}, required = [] } = schemaOf(schema, "input") as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === "path" || required.includes(name),
    schema: property,
  }));
}

const idempotencyKey: Json = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "Of the caller's own making. The same call with the same key is carried out once, for a day.",
  schema: { type: "string", minLength: 1, maxLength: limits.idempotencyKeyLengthMax, pattern: "^[!-~]+$" },
};

const content = (schema: Json, type = "application/json") => ({ [type]: { schema } });

/** Of a media type that says the rest. */
const anyBytes: Json = {};

const jsonPart = (schema: z.ZodType, description: string): Json => ({
  type: "string",
  description,
  contentMediaType: "application/json",
  contentSchema: schemaOf(schema, "input"),
});

/** The parts of a source upload. The archive streams by, so no schema of ours ever holds it. */
const uploadBody: Json = {
  type: "object",
  required: ["manifest", "source"],
  properties: {
    manifest: jsonPart(sourceManifestSchema, "The normalised manifest as JSON."),
    metadata: jsonPart(deploymentMetadata, "Where the deploy comes from, as JSON."),
    forceBuild: {
      type: "string",
      enum: ["true", "false"],
      description: "Whether it is built although nothing that decides its build has changed.",
    },
    source: { contentMediaType: "application/gzip", description: "The project as a gzipped tar archive." },
  },
  additionalProperties: false,
};

const upload: Json = {
  schema: uploadBody,
  encoding: {
    manifest: { contentType: "text/plain, application/json" },
    metadata: { contentType: "text/plain, application/json" },
    source: { contentType: "application/gzip, application/octet-stream" },
  },
};

function requestBody(spec: Endpoint): Json | null {
  if (spec.uploadType !== null) return { required: true, content: { [spec.uploadType]: { schema: {} } } };
  if (spec.body === null) return null;
  const json = content(schemaOf(spec.body, "input"));
  return {
    required: !spec.body.safeParse(undefined).success,
    content: spec.upload ? { "multipart/form-data": upload, ...json } : json,
  };
}

const headerRef = (name: string) => ({ $ref: `#/components/headers/${name}` });

/** One refusal per status, with the codes that it comes with. */
function refusals(spec: Endpoint): Json {
  const byStatus = Map.groupBy(declaredErrors(spec), ({ status }) => status);
  return Object.fromEntries([...byStatus].map(([status, errors]) => [status, refusal(status, errors)]));
}

function refusal(status: number, errors: readonly DeclaredError[]): Json {
  const codes = errors.map(({ code }) => code);
  return {
    description: codes.map((code) => `${code}: ${errorMessage(code)}`).join("\n"),
    headers: {
      "X-Request-Id": headerRef("RequestId"),
      ...((status === 429 || status === 503) && { "Retry-After": headerRef("RetryAfter") }),
    },
    content: content({
      allOf: [
        { $ref: "#/components/schemas/Error" },
        {
          type: "object",
          properties: { error: { type: "object", properties: { code: { type: "string", enum: codes } } } },
        },
      ],
    }),
  };
}

const operationId = ({ method, path }: Endpoint): string =>
  `${method.toLowerCase()}${path.replaceAll(/[^A-Za-z0-9]+(.)?/g, (_, next: string = "") => next.toUpperCase())}`;

function operation(spec: Endpoint): Json {
  const body = requestBody(spec);
  const repeatable = declaredErrors(spec).some(({ code }) => code === "IDEMPOTENCY_CONFLICT");
  return {
    summary: spec.summary,
    description: accessText(spec.access),
    operationId: operationId(spec),
    tags: [spec.path.split("/")[1] ?? ""],
    security: security(spec.access),
    parameters: [
      ...parameters(spec.params, "path"),
      ...parameters(spec.query, "query"),
      ...(repeatable ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
    ],
    ...(body !== null && { requestBody: body }),
    responses: {
      [spec.status]: {
        description: "Success.",
        headers: { "X-Request-Id": headerRef("RequestId") },
        content: spec.file === null ? content(schemaOf(spec.reply, "output")) : content(anyBytes, spec.file),
      },
      ...refusals(spec),
    },
  };
}

/** The description of the whole API as an OpenAPI 3.1 document, made from the schemas that check its calls. */
export function describeApi(endpoints: readonly Endpoint[], apiUrl: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const spec of endpoints) {
    const path = spec.path.replaceAll(/:([A-Za-z]+)/g, "{$1}");
    paths[path] = { ...paths[path], [spec.method.toLowerCase()]: operation(spec) };
  }
  const tags = [...new Set(endpoints.map(({ path }) => path.split("/")[1] ?? ""))];
  return {
    openapi: "3.1.0",
    info: {
      title: "svc",
      version: "1",
      description: "Replies may gain fields at any time; clients must tolerate them.",
    },
    servers: [{ url: `${apiUrl}${apiPrefix}` }],
    tags: tags.map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        apiKey: {
          type: "apiKey",
          in: "header",
          name: "x-api-key",
          description: "An API key. Where an operation lists scopes, a key without any has them all.",
        },
        bearer: { type: "http", scheme: "bearer", description: "A session token." },
        cookie: {
          type: "apiKey",
          in: "cookie",
          name: signInCookieName(apiUrl),
          description: "A session. Changes are accepted from pages of this origin only.",
        },
      },
      parameters: { IdempotencyKey: idempotencyKey },
      headers: {
        RequestId: { description: "Names the request in our logs.", schema: { type: "string" } },
        RetryAfter: { description: "Seconds to wait before another attempt.", schema: { type: "integer", minimum: 1 } },
      },
      schemas: { Error: schemaOf(errorReply, "output") },
    },
  };
}
