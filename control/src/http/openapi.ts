import { errorCatalogue, errorReply } from "@svc/proto";
import { z } from "zod";
import type { Access } from "../auth/access.ts";
import { sessionCookieName } from "../auth/auth.ts";
import { apiPrefix } from "./api.ts";
import type { Endpoint } from "./endpoint.ts";

type Json = Record<string, unknown>;

const schemaOf = (schema: z.ZodType, io: "input" | "output"): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any", target: "draft-2020-12" });
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
      return `Scope ${access.scope}${access.orCiKey ? ", or a ci:deploy key of this project for what it created" : ""}.`;
  }
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

const content = (schema: Json, type = "application/json") => ({ [type]: { schema } });

/** The parts of a source upload. The archive streams by, so no schema of ours ever holds it. */
const uploadBody: Json = {
  type: "object",
  required: ["manifest", "source"],
  properties: {
    manifest: { type: "string", description: "The normalised manifest as JSON." },
    metadata: { type: "string", description: "Where the deploy comes from, as JSON." },
    source: {
      type: "string",
      contentMediaType: "application/gzip",
      description: "The project as a gzipped tar archive.",
    },
  },
};

function requestBody(spec: Endpoint): Json | null {
  if (spec.body === null) return null;
  const json = content(schemaOf(spec.body, "input"));
  return { required: true, content: spec.upload ? { ...content(uploadBody, "multipart/form-data"), ...json } : json };
}

function operation(spec: Endpoint): Json {
  const body = requestBody(spec);
  return {
    summary: spec.summary,
    description: accessText(spec.access),
    operationId: `${spec.method.toLowerCase()}${spec.path.replaceAll(/[^A-Za-z0-9]+(.)?/g, (_, next: string = "") => next.toUpperCase())}`,
    tags: [spec.path.split("/")[1] ?? ""],
    parameters: [...parameters(spec.params, "path"), ...parameters(spec.query, "query")],
    ...(body !== null && { requestBody: body }),
    ...(spec.access === "none" && { security: [] }),
    responses: {
      [spec.status]: { description: "Success.", content: content(schemaOf(spec.reply, "output")) },
      default: { description: "Refused or failed.", content: content({ $ref: "#/components/schemas/Error" }) },
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
  return {
    openapi: "3.1.0",
    info: {
      title: "svc",
      version: "1",
      description: "Replies may gain fields at any time; clients must tolerate them.",
    },
    servers: [{ url: `${apiUrl}${apiPrefix}` }],
    security: [{ apiKey: [] }, { bearer: [] }, { cookie: [] }],
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
        bearer: { type: "http", scheme: "bearer", description: "A session token." },
        cookie: { type: "apiKey", in: "cookie", name: sessionCookieName(apiUrl) },
      },
      schemas: { Error: { ...schemaOf(errorReply, "output"), "x-codes": errorCatalogue } },
    },
  };
}
