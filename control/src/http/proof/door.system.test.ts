import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiEndpoints } from "../../server.ts";
import type { Endpoint } from "../endpoint.ts";
import { type Answer, type TestApi, testApi } from "../testing.ts";
import { inBatches } from "./batches.ts";
import { type ContractRoute, endsItsCredential, knownRoutes, routeName } from "./contract.ts";
import { allCredentials, newPeople, type People } from "./credentials.ts";
import { type Description, describeReplies } from "./description.ts";
import { expected } from "./expected.ts";
import { newTarget } from "./targets.ts";
import { visit } from "./visit.ts";

const requestsAtOnce = 12;

let api: TestApi;
let people: People;
let credentials: Awaited<ReturnType<typeof allCredentials>>;
let description: Description;

beforeAll(async () => {
  api = await testApi({ resolve: async () => ["93.184.215.14"] });
  people = await newPeople(api);
  credentials = await allCredentials(api, people);
  description = await describeReplies(api);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

/** Codes that only the way in answers with, when they come with these statuses. */
const doorCodes = new Set(["401 UNAUTHORIZED", "403 FORBIDDEN", "403 FORBIDDEN_SCOPE", "403 SESSION_REQUIRED"]);

/** How far the call got: past the door and to something that exists, or what it was refused with. */
function outcome(route: ContractRoute, { status, body }: Answer): string {
  const said = status >= 400 ? `${status} ${body.error?.code}` : `${status}`;
  // What was found is kept in the registry, which is not here.
  if (said === "503 UNAVAILABLE" && routeName(route) === "GET /deployments/:id/screenshot") return "in";
  if (status >= 500) return said;
  const missing = said === "404 NOT_FOUND" && route.path.includes("/:");
  return doorCodes.has(said) || missing ? said : "in";
}

/** Everybody who was told something else than the contract says. */
async function surprises(route: ContractRoute): Promise<string[]> {
  const shared = await newTarget(api, people.owner, route);
  const found = await inBatches(credentials, requestsAtOnce, async (kind) => {
    let target = shared;
    let presented = await kind(route, target);
    if (presented === null) return [];
    const wanted = expected(route, presented.proof);
    if (wanted === "in" && route.method !== "GET") {
      // What the call may change or delete is for nobody else.
      target = await newTarget(api, people.owner, route);
      presented = (await kind(route, target)) ?? presented;
    }
    const { who, options, query } = presented;
    const answer = await visit(api, { route, params: target.params, options, query });
    const wantedText = wanted === "in" ? "in" : `${wanted.status} ${wanted.code}`;
    const foundText = outcome(route, answer);
    return [
      ...(foundText === wantedText ? [] : [`${who}: ${foundText} instead of ${wantedText}`]),
      ...description.problems(route, answer).map((problem) => `${who}: ${problem}`),
    ];
  });
  return found.flat();
}

const routes = apiEndpoints
  .flatMap((spec: Endpoint) => knownRoutes.get(routeName(spec)) ?? [])
  // Last comes what takes away the keys that everything else is called with.
  .sort((a, b) => Number(endsItsCredential(a)) - Number(endsItsCredential(b)));

describe("every kind of credential is told what the contract says by", () => {
  test.each(routes.map((route) => ({ name: routeName(route), route })))("$name", async ({ route }) => {
    expect(await surprises(route)).toEqual([]);
  });
});
