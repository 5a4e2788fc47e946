import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { Method } from "../endpoint.ts";
import type { Answer, TestApi } from "../testing.ts";

type Json = Record<string, unknown>;

export interface Operation {
  parameters: Json[];
  requestBody?: { required: boolean; content: Record<string, { schema: Json }> };
  security: Record<string, string[]>[];
  responses: Record<string, { content?: Record<string, { schema: Json }>; headers?: Json }>;
}

/** The API's own description of itself, as a judge of what it says. */
export interface Description {
  document: Json;
  operation(route: { method: Method; path: string }): Operation;
  /** What is wrong with an answer: an undescribed status, or a body that is not as described. */
  problems(route: { method: Method; path: string }, answer: Pick<Answer, "status" | "body" | "headers">): string[];
}

const documentId = "https://svc.test/openapi.json";

/** Formats are checked; what JSON Schema does not know is an error. */
export function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({ strict: true, strictRequired: false, allErrors: true, allowUnionTypes: true });
  // The type of a CommonJS module hides its default export.
  (formats as unknown as (ajv: Ajv2020) => void)(ajv);
  return ajv;
}

const templateOf = (path: string): string => path.replaceAll(/:([A-Za-z]+)/g, "{$1}");
const pointer = (...steps: string[]): string =>
  steps.map((step) => `/${encodeURIComponent(step.replaceAll("~", "~0").replaceAll("/", "~1"))}`).join("");

export async function describeReplies(api: TestApi): Promise<Description> {
  const { body: document } = await api.call("GET", "/openapi.json");
  const ajv = newAjv();
  // The document is more than a schema: what it is besides has no meaning to a validator.
  ajv.addSchema({ $id: documentId, $defs: {}, ...unknownKeywords(ajv, document) });
  const validators = new Map<string, ValidateFunction>();
  const paths = document.paths as Record<string, Record<string, Operation>>;

  const operation: Description["operation"] = ({ method, path }) => {
    const found = paths[templateOf(path)]?.[method.toLowerCase()];
    if (found === undefined) throw new Error(`${method} ${path} is not described`);
    return found;
  };
  const validator = ({ method, path }: { method: Method; path: string }, status: number): ValidateFunction => {
    const at = pointer("paths", templateOf(path), method.toLowerCase(), "responses", `${status}`);
    const ref = `${documentId}#${at}${pointer("content", "application/json", "schema")}`;
    const known = validators.get(ref);
    if (known !== undefined) return known;
    const compiled = ajv.compile({ $ref: ref });
    validators.set(ref, compiled);
    return compiled;
  };

  return {
    document,
    operation,
    problems(route, { status, body, headers }) {
      const described = operation(route).responses[`${status}`];
      if (described === undefined) return [`${status} ${body.error?.code ?? ""} is not described`];
      const validate = validator(route, status);
      const wrong = validate(body)
        ? []
        : (validate.errors ?? []).map(({ instancePath, message }) => `${status} ${instancePath || "/"} ${message}`);
      const unlimited = headers.get("retry-after") !== null && described.headers?.["Retry-After"] === undefined;
      return unlimited ? [...wrong, `${status} says Retry-After`] : wrong;
    },
  };
}

/** Lets the validator pass over what OpenAPI adds around the schemas. */
function unknownKeywords(ajv: Ajv2020, document: Json): Json {
  for (const keyword of Object.keys(document)) ajv.addKeyword(keyword);
  return document;
}
