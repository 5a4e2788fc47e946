import { randomInt, randomUUID } from "node:crypto";
import { systemRandom } from "@svc/runtime/system";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { apiEndpoints } from "../../server.ts";
import { isDeclared } from "../declared.ts";
import type { Endpoint } from "../endpoint.ts";
import { type Answer, type CallOptions, type TestApi, testApi } from "../testing.ts";
import { encode, fits, mutated, nastyText, queryString, rawBody } from "./arbitrary.ts";
import { type ContractRoute, knownRoutes, routeName } from "./contract.ts";
import { newPeople, type People, signInCookie } from "./credentials.ts";
import { type Description, describeReplies } from "./description.ts";
import { exampleBody } from "./examples.ts";
import { newTarget, parametersOf, type Target } from "./targets.ts";

/** Requests per route. Set it higher to look for longer. */
const runs = Number(process.env["SVC_FUZZ_RUNS"] ?? 64);
/** The same requests each time, unless another seed is wanted. */
const seed = Number(process.env["SVC_FUZZ_SEED"] ?? 20_250_101);
const requestsAtOnce = 8;
/** Ends a run that hangs; a busy machine takes fifty times as long as an idle one. */
const timeoutMs = Math.max(300_000, runs * 5_000);

let api: TestApi;
let people: People;
let description: Description;

beforeAll(async () => {
  api = await testApi({ resolve: async () => ["93.184.215.14"] });
  people = await newPeople(api);
  description = await describeReplies(api);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

type Who = "owner" | "owner's key" | "owner's page" | "CI" | "stranger" | "admin" | "nobody" | "garbage";

interface Sent {
  who: Who;
  /** One per parameter of the path; null is what really exists. */
  ids: (string | null)[];
  query: string;
  /** Undefined sends none. */
  body: unknown;
  /** Whether the body goes as it is, and not as JSON. */
  raw: boolean;
  headers: Record<string, string>;
}

const properties = (schema: z.ZodType | null): string[] =>
  schema === null ? [] : Object.keys(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }).properties ?? {});

const contentType = fc.constantFrom(
  ...["text/plain", "application/json; charset=utf-16", "application/json\ta", "multipart/form-data", "a/b/c", ""],
  ...[
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/JSON",
    "application/json;x=y",
  ],
);
const oddHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { arbitrary: fc.constant({}), weight: 8 },
  { arbitrary: contentType.map((type) => ({ "content-type": type })), weight: 2 },
  {
    arbitrary: fc.constantFrom("", " ", "k", "é", "x".repeat(300)).map((key) => ({ "idempotency-key": key })),
    weight: 1,
  },
  { arbitrary: fc.constant({ "content-encoding": "gzip" }), weight: 1 },
  { arbitrary: fc.constantFrom("text/html", "*/*", "x").map((accept) => ({ accept })), weight: 1 },
);

function requests(spec: Endpoint): fc.Arbitrary<Sent> {
  const schema = spec.body === null ? null : z.toJSONSchema(spec.body, { io: "input", unrepresentable: "any" });
  const example = exampleBody(systemRandom, spec);
  const json: fc.Arbitrary<unknown>[] =
    schema === null
      ? [fc.constantFrom(undefined, undefined, undefined, {}, null, [], "x", { a: 1 })]
      : [fits(schema as Record<string, unknown>), mutated(example), mutated(example), fc.constant(example)];
  const body = fc.oneof(
    { arbitrary: fc.oneof(...json).map((value) => ({ body: value, raw: false })), weight: 8 },
    { arbitrary: rawBody.map((value) => ({ body: value as unknown, raw: true })), weight: 1 },
  );
  const id = fc.oneof(
    { arbitrary: fc.constant(null), weight: 6 },
    { arbitrary: fc.uuid(), weight: 1 },
    { arbitrary: nastyText.map((text) => text.slice(0, 200)), weight: 1 },
  );
  return fc
    .record({
      who: fc.oneof(
        { arbitrary: fc.constantFrom<Who>("owner", "owner's key", "owner's page"), weight: 6 },
        { arbitrary: fc.constantFrom<Who>("admin"), weight: spec.access === "admin" ? 20 : 1 },
        { arbitrary: fc.constantFrom<Who>("CI", "stranger", "nobody", "garbage"), weight: 2 },
      ),
      ids: fc.tuple(...parametersOf(spec.path).map(() => id)),
      query: queryString(properties(spec.query)),
      headers: oddHeaders,
      body: spec.method === "GET" ? fc.constant({ body: undefined, raw: false }) : body,
    })
    .map(({ body: { body: value, raw }, ...rest }) => ({ ...rest, body: value, raw }));
}

async function credential(who: Who, { creatorKey }: Target): Promise<CallOptions> {
  const { owner, stranger, admin } = people;
  switch (who) {
    case "owner":
      return { session: owner.session };
    case "owner's key":
      return { key: (await api.newKey(owner)).key };
    case "owner's page":
      return { cookie: signInCookie(api, owner.session), headers: { origin: api.url } };
    case "CI":
      return creatorKey === null ? {} : { key: creatorKey };
    case "stranger":
      return { session: stranger.session };
    case "admin":
      return { session: admin.session };
    case "nobody":
      return {};
    case "garbage":
      return { key: "svc_~", cookie: "=; ;;" };
  }
}

async function send(route: ContractRoute, { who, ids, query, body, raw, headers }: Sent): Promise<Answer> {
  const target = await newTarget(api, people.owner, route);
  const names = parametersOf(route.path);
  const path = names.reduce(
    (text, name, index) => text.replace(`:${name}`, encode(ids[index] ?? target.params[name] ?? randomUUID())),
    route.path,
  );
  const options = await credential(who, target);
  const text = raw ? (body as string | Uint8Array<ArrayBuffer>) : JSON.stringify(body);
  return api.call(route.method, query === "" ? path : `${path}?${query}`, {
    ...options,
    ...(text !== undefined && { body: text }),
    headers: {
      "x-forwarded-for": `10.${randomInt(256)}.${randomInt(256)}.1`,
      ...(text !== undefined && { "content-type": "application/json" }),
      ...options.headers,
      ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, latin(value)])),
    },
  });
}

/** Headers carry bytes. */
const latin = (text: string): string => Buffer.from(text).toString("latin1");

/** What is wrong with an answer, whatever was asked. */
function fault(spec: Endpoint, { status, body, headers, text }: Answer): string | null {
  const said = `${status} ${body.error?.code ?? ""} ${text.slice(0, 200)}`;
  // What cannot be read as an address, or is too long for one, reaches no route.
  const strays = [404, 405, 414, 431].includes(status) || (status === 400 && body.error?.code === "BAD_REQUEST");
  if (typeof body.ok !== "boolean" || body.ok !== status < 400) return `no envelope: ${said}`;
  if (headers.get("content-type") !== "application/json; charset=utf-8") return `another type: ${said}`;
  if (/\bat .*\.ts:|node_modules|select .* from|\/work\//.test(text)) return `tells of our insides: ${said}`;
  if (status >= 500 && !isFailureOfOthers(spec, status, body.error.code)) return said;
  if (status >= 400 && !strays && !isDeclared(spec, status, body.error.code)) return `undeclared: ${said}`;
  const problems = strays ? [] : description.problems(spec, { status, body, headers });
  return problems[0] ?? null;
}

/** No registry and no node is there. */
const isFailureOfOthers = (spec: Endpoint, status: number, code: string): boolean =>
  (status === 502 || status === 503) &&
  isDeclared(spec, status, code) &&
  /deployments|runtime-logs|githost/.test(spec.path);

const known = apiEndpoints.flatMap((spec) => {
  const route = knownRoutes.get(routeName(spec));
  return route === undefined ? [] : [{ name: routeName(spec), spec, route }];
});

describe("no request makes the API fail or say what it does not declare:", () => {
  test.each(known)(
    "$name",
    async ({ spec, route }) => {
      const atOnce = fc.array(requests(spec), { minLength: requestsAtOnce, maxLength: requestsAtOnce, size: "max" });
      const property = fc.asyncProperty(atOnce, async (batch) => {
        const faults = await Promise.all(batch.map(async (sent) => fault(spec, await send(route, sent))));
        const wrong = batch.flatMap((sent, index) => (faults[index] ? [{ sent, fault: faults[index] }] : []));
        expect(wrong).toEqual([]);
      });
      const numRuns = Math.max(1, Math.ceil(runs / requestsAtOnce));
      await fc.assert(property, { seed, numRuns, endOnFailure: runs > 1000 });
    },
    timeoutMs,
  );
});
