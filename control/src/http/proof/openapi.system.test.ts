import { Validator } from "@seriousme/openapi-schema-validator";
import { systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { apiEndpoints } from "../../server.ts";
import { declaredErrors } from "../declared.ts";
import { type TestApi, testApi } from "../testing.ts";
import { knownRoutes, routeName } from "./contract.ts";
import { type Description, describeReplies, newAjv, type Operation } from "./description.ts";
import { exampleBody, hasExample, strayExamples } from "./examples.ts";
import { smallestGrant } from "./expected.ts";

let api: TestApi;
let description: Description;
const ajv = newAjv().addVocabulary(["components"]);

beforeAll(async () => {
  api = await testApi();
  description = await describeReplies(api);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;

/** Every object below `value` with the path to it. */
function* objectsIn(value: unknown, path = ""): Generator<{ path: string; object: Json }> {
  if (!isObject(value)) return;
  if (!Array.isArray(value)) yield { path, object: value };
  for (const [key, item] of Object.entries(value)) yield* objectsIn(item, `${path}/${key}`);
}

/** Where the document has JSON Schemas. */
const schemasIn = (document: Json) =>
  [...objectsIn(document)].flatMap(({ path, object }) =>
    isObject(object["schema"]) ? [{ path, schema: object["schema"] }] : [],
  );

describe("the document", () => {
  test("is OpenAPI 3.1 by the specification's own schema", async () => {
    const validator = new Validator();
    expect(await validator.validate(structuredClone(description.document))).toEqual({ valid: true });
    expect(validator.version).toBe("3.1");
  });

  test("holds schemas that a validator takes, and nothing in them that it does not know", () => {
    const { components } = description.document;
    const wrong = schemasIn(description.document).flatMap(({ path, schema }) => {
      try {
        ajv.compile({ ...schema, components });
        return [];
      } catch (error) {
        return [`${path}: ${error}`];
      }
    });
    expect(wrong).toEqual([]);
  });

  test("refers to nothing that is not in it", () => {
    const lost = [...objectsIn(description.document)].flatMap(({ path, object: { $ref: ref } }) => {
      if (typeof ref !== "string") return [];
      const target = ref
        .slice(2)
        .split("/")
        .reduce<unknown>((at, step) => (isObject(at) ? at[step] : undefined), description.document);
      return ref.startsWith("#/") && target !== undefined ? [] : [`${path}: ${ref}`];
    });
    expect(lost).toEqual([]);
  });

  test("names each operation once", () => {
    const ids = [...objectsIn(description.document)].flatMap(({ object }) => object["operationId"] ?? []);
    expect(ids).toHaveLength(apiEndpoints.length);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

test("no pattern is described without the flags that it is checked with", () => {
  const flagged: string[] = [];
  for (const spec of apiEndpoints) {
    for (const schema of [spec.params, spec.query, spec.body]) {
      if (schema === null) continue;
      z.toJSONSchema(schema, {
        io: "input",
        unrepresentable: "any",
        override({ zodSchema, jsonSchema }) {
          const { checks = [] } = zodSchema._zod.def as { checks?: { _zod: { def: { pattern?: RegExp } } }[] };
          const flags = checks
            .map((check) => check._zod.def.pattern?.flags ?? "")
            .join("")
            .replaceAll(/[uv]/g, "");
          if (jsonSchema.pattern !== undefined && flags !== "")
            flagged.push(`${routeName(spec)}: ${jsonSchema.pattern}`);
        },
      });
    }
  }
  expect(flagged).toEqual([]);
});

const described = apiEndpoints.flatMap((spec) => {
  const route = knownRoutes.get(routeName(spec));
  return route === undefined ? [] : [{ name: routeName(spec), spec, route }];
});

describe.each(described)("$name", ({ spec, route }) => {
  const operation = (): Operation => description.operation(spec);

  test("is described with each refusal's status and codes", () => {
    const wanted = Map.groupBy(declaredErrors(spec), ({ status }) => `${status}`);
    const refusals = Object.entries(operation().responses).filter(([status]) => Number(status) >= 400);
    expect(refusals.map(([status]) => status).sort()).toEqual([...wanted.keys()].sort());
    for (const [status, response] of refusals) {
      const text = JSON.stringify(response.content);
      for (const { code } of wanted.get(status) ?? []) expect(text).toContain(`"${code}"`);
      const waits = status === "429" || status === "503";
      expect(Object.hasOwn(response.headers ?? {}, "Retry-After")).toBe(waits);
    }
  });

  test("says which credentials open it", () => {
    const keys = operation().security.flatMap(({ apiKey }) => (apiKey === undefined ? [] : [apiKey]));
    const forms = operation().security.flatMap((each) => Object.keys(each));
    if (route.access === "none") expect(forms).toEqual([]);
    else expect(forms).toEqual(expect.arrayContaining(["bearer", "cookie"]));
    if (route.access === "none" || route.access === "session") expect(keys).toEqual([]);
    else if (typeof route.access === "string") expect(keys).toEqual([[]]);
    else {
      expect(keys).toContainEqual(smallestGrant(route));
      expect(keys.flat().includes("ci:deploy")).toBe(route.access.ci !== undefined);
    }
  });
});

test.each(described.filter(({ spec }) => spec.body !== null))(
  "$name has an example that its schema, its description and the server's own check accept",
  ({ spec, route }) => {
    expect(hasExample(route)).toBe(true);
    const example = exampleBody(systemRandom, route);
    expect(spec.body?.safeParse(example).error?.issues ?? []).toEqual([]);
    const schema = description.operation(spec).requestBody?.content["application/json"]?.schema;
    const validate = ajv.compile(schema ?? false);
    validate(example);
    expect(validate.errors ?? []).toEqual([]);
  },
);

test("examples are of routes that there are", () => {
  expect(strayExamples).toEqual([]);
});

describe("what people look for", () => {
  const json = (name: string) => {
    const [method = "", path = ""] = name.split(" ");
    const { requestBody } = description.operation({ method, path } as Parameters<Description["operation"]>[0]);
    return requestBody?.content["application/json"]?.schema as { properties: Record<string, Json>; required: string[] };
  };

  test("deleting a credential needs confirm to be true", () => {
    const { properties, required } = json("DELETE /projects/:id/registry-credentials");
    expect(properties["confirm"]).toMatchObject({ const: true });
    expect(required).toEqual(expect.arrayContaining(["host", "confirm"]));
  });

  test("a commit hash may have letters of either case", () => {
    const metadata = json("POST /projects/:id/deployments").properties["metadata"] as { properties: Json };
    const text = JSON.stringify(metadata.properties["gitSha"]);
    const pattern = new RegExp(/"pattern":"([^"]+)"/.exec(text)?.[1] ?? "^$");
    expect(["0123ABCdef".repeat(4), "abcdef0"].every((hash) => pattern.test(hash))).toBe(true);
  });

  test("a source is deployed in parts", () => {
    const { requestBody } = description.operation({ method: "POST", path: "/projects/:id/deployments" });
    const { properties = {}, required } = requestBody?.content["multipart/form-data"]?.schema ?? {};
    expect(Object.keys(properties as Json)).toEqual(["manifest", "metadata", "forceBuild", "source"]);
    expect(required).toEqual(["manifest", "source"]);
    expect((properties as Json)["manifest"]).toMatchObject({
      contentMediaType: "application/json",
      contentSchema: { type: "object" },
    });
  });

  test.each(["POST /projects", "POST /projects/:id/deployments", "POST /deployments/:id/rollback"])(
    "%s can be repeated with a key",
    (name) => {
      const [method = "", path = ""] = name.split(" ");
      const { parameters } = description.operation({ method, path } as Parameters<Description["operation"]>[0]);
      expect(parameters).toContainEqual({ $ref: "#/components/parameters/IdempotencyKey" });
    },
  );
});
