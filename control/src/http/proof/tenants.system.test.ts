import { randomUUID } from "node:crypto";
import type { Scope } from "@svc/proto";
import { systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { apiEndpoints } from "../../server.ts";
import { type Answer, type CallOptions, type TestApi, testApi } from "../testing.ts";
import { inBatches } from "./batches.ts";
import { type ContractRoute, knownRoutes, routeName } from "./contract.ts";
import { newPeople, type People } from "./credentials.ts";
import { type Description, describeReplies } from "./description.ts";
import { exampleBody } from "./examples.ts";
import { smallestGrant } from "./expected.ts";
import { snapshot } from "./snapshot.ts";
import { newTarget, parametersOf, type Target } from "./targets.ts";
import { visit } from "./visit.ts";

const requestsAtOnce = 12;

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

type Params = Readonly<Record<string, string>>;
interface Attempt {
  what: string;
  params: Params;
  options: CallOptions;
}

/** All that a client gets to see, without what differs from one reply to the next by its nature. */
function bytesOf({ status, headers, text }: Answer): string {
  const ofEachReply = new Set(["date", "x-request-id", "connection", "keep-alive"]);
  return JSON.stringify([status, [...headers].filter(([name]) => !ofEachReply.has(name)), text]);
}

/** Ids that name nothing: one for every form in which somebody may send them. */
const noSuchId = (): string[] => [
  randomUUID(),
  "00000000-0000-0000-0000-000000000000",
  "ffffffffffffffff",
  "x",
  "../x",
  "*",
  "' or 1=1 --",
  `${randomUUID()}\0`,
  "\u00e9".repeat(20),
];

/** `own` with one parameter at a time taken from elsewhere. */
const oneReplaced = (route: ContractRoute, own: Target, from: (name: string) => string): Params[] =>
  parametersOf(route.path)
    // A table is named within its database: whose that is is all that counts.
    .filter((name) => name !== "table")
    .map((name) => ({ ...own.params, [name]: from(name) }));

/** Keys that the route is open to, each limited to a project that is not the one asked for. */
async function limitedKeys(route: ContractRoute): Promise<CallOptions[]> {
  const { owner, otherProjectId } = people;
  const grants: (readonly Scope[] | null)[] = [null, smallestGrant(route)];
  if (typeof route.access === "object" && route.access.ci !== undefined) grants.push(["ci:deploy"]);
  const usable = route.refusesLimitedKeys || route.access === "admin" ? [] : grants;
  return Promise.all(
    usable.map(async (scopes) => {
      const { key } = await api.newKey(owner, { ...(scopes && { scopes: [...scopes] }), projectIds: [otherProjectId] });
      return { key };
    }),
  );
}

/** Credentials that reach all that their user owns. */
async function wideCredentials(route: ContractRoute): Promise<CallOptions[]> {
  const { owner, admin } = people;
  if (route.access === "admin") return [{ session: admin.session }, { key: (await api.newKey(admin)).key }];
  const scopes = smallestGrant(route);
  return [
    { session: owner.session },
    { key: (await api.newKey(owner)).key },
    ...(scopes === null ? [] : [{ key: (await api.newKey(owner, { scopes: [...scopes] })).key }]),
    // An administrator is a stranger like any other here.
    { session: admin.session },
  ];
}

async function attemptsAt(route: ContractRoute): Promise<Attempt[]> {
  const { owner, stranger } = people;
  const own = await newTarget(api, owner, route);
  const foreign = await newTarget(api, stranger, route);
  const outside = await newTarget(api, owner, route);
  const deleted = await newTarget(api, owner, route);
  await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", deleted.projectId).execute();
  const missing = noSuchId().flatMap((id) => oneReplaced(route, own, () => id));
  const others = [...oneReplaced(route, own, (name) => foreign.params[name] ?? ""), foreign.params];
  const attempts: Attempt[] = [];
  for (const options of await wideCredentials(route)) {
    for (const params of missing) attempts.push({ what: "an id of nothing", params, options });
    if (route.access === "admin") continue;
    for (const params of others) attempts.push({ what: "another tenant's id", params, options });
    if (deleted.projectId !== null)
      attempts.push({ what: "an id of what is deleted", params: deleted.params, options });
  }
  for (const options of await limitedKeys(route)) {
    for (const params of missing) attempts.push({ what: "an id of nothing", params, options });
    for (const params of others) attempts.push({ what: "another tenant's id", params, options });
    attempts.push({ what: "an id outside of the key's list", params: outside.params, options });
  }
  return attempts;
}

const known = apiEndpoints.flatMap((spec) => {
  const route = knownRoutes.get(routeName(spec));
  return route === undefined ? [] : [{ name: routeName(spec), route, spec }];
});
const withIds = known.filter(({ route }) => parametersOf(route.path).length > 0);

describe("what is not the caller's is not there, for", () => {
  test.each(withIds)("$name", async ({ route }) => {
    const attempts = await attemptsAt(route);
    const before = await snapshot(api.db);
    const answers = await inBatches(attempts, requestsAtOnce, async ({ params, options }) =>
      visit(api, { route, params, options }),
    );
    const reference = bytesOf(answers[0] as Answer);
    expect(JSON.parse(reference)[0]).toBe(404);
    const different = answers.flatMap((answer, index) => {
      const { what, params, options } = attempts[index] as Attempt;
      const who = options.key === undefined ? "a session" : "a key";
      const place = JSON.stringify(params);
      return [
        ...(bytesOf(answer) === reference ? [] : [`${what} ${place} with ${who}: ${answer.status} ${answer.text}`]),
        ...description.problems(route, answer),
      ];
    });
    expect(different).toEqual([]);
    expect(await snapshot(api.db)).toEqual(before);
  });
});

/** Ids that come in bodies and queries, each with calls that name what does not exist and what is not the caller's. */
interface Place {
  /** Answers alike for each of the ids; null: without an error, as one that filters by what is not there. */
  wanted: { status: number; code: string | null };
  call(id: string): Promise<Answer>;
}

const asOwner = () => ({ session: people.owner.session });
const inProject = (rest: string) => `/projects/${people.otherProjectId}${rest}`;
const places: Readonly<Record<string, Place>> = {
  "POST /tokens projectIds": {
    wanted: { status: 422, code: "VALIDATION" },
    call: (id) => api.call("POST", "/tokens", { ...asOwner(), body: { name: "x", projectIds: [id] } }),
  },
  "POST /projects/:id/deployments preserveManifestFromDeploymentId": {
    wanted: { status: 422, code: "VALIDATION" },
    call: (id) =>
      api.call("POST", inProject("/deployments"), {
        ...asOwner(),
        body: {
          ...(exampleBody(systemRandom, { method: "POST", path: "/projects/:id/deployments" }) as object),
          preserveManifestFromDeploymentId: id,
        },
      }),
  },
  "GET /projects/:id/runtime-logs deployment": {
    wanted: { status: 404, code: "NOT_FOUND" },
    call: (id) => api.call("GET", inProject(`/runtime-logs?deployment=${id}`), asOwner()),
  },
  "GET /projects/:id/jobs deployment": {
    wanted: { status: 404, code: "NOT_FOUND" },
    call: (id) => api.call("GET", inProject(`/jobs?deployment=${id}`), asOwner()),
  },
  "GET /projects/:id/job-runs deployment": {
    wanted: { status: 200, code: null },
    call: (id) => api.call("GET", inProject(`/job-runs?deployment=${id}`), asOwner()),
  },
};

/** Names of what holds ids in a JSON Schema, at any depth. */
function idNames(schema: unknown, name = ""): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { format, properties = {}, items, anyOf = [], allOf = [] } = schema as Record<string, never>;
  return [
    ...(format === "uuid" ? [name] : []),
    ...Object.entries(properties).flatMap(([key, value]) => idNames(value, key)),
    ...idNames(items, name),
    ...[...(anyOf as unknown[]), ...(allOf as unknown[])].flatMap((each) => idNames(each, name)),
  ];
}

describe("an id inside of a request", () => {
  const sent = known
    // Administrators see everybody's.
    .filter(({ route }) => route.access !== "admin")
    .flatMap(({ name, spec }) =>
      [spec.query, spec.body].flatMap((schema) =>
        schema === null
          ? []
          : idNames(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" })).map((id) => `${name} ${id}`),
      ),
    );

  test("is known here wherever it may come", () => {
    expect([...new Set(sent)].sort()).toEqual(Object.keys(places).sort());
  });

  test.each(Object.entries(places))("as in %s tells nothing about what is not the caller's", async (_, place) => {
    // Somebody who has not used up what an account may have.
    people = await newPeople(api);
    const { owner, stranger } = people;
    const mine = await newTarget(api, owner, { path: "/deployments/:id" });
    const theirs = await newTarget(api, stranger, { path: "/deployments/:id" });
    const deleted = await newTarget(api, owner, { path: "/projects/:id" });
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", deleted.projectId).execute();
    const ids = [randomUUID(), theirs.params["id"], theirs.projectId, mine.params["id"], deleted.projectId, owner.id];
    const before = await snapshot(api.db);
    const answers = await Promise.all(ids.map((id) => place.call(id ?? "")));
    expect([...new Set(answers.map(bytesOf))]).toHaveLength(1);
    expect([answers[0]?.status, answers[0]?.body.error?.code ?? null]).toEqual([
      place.wanted.status,
      place.wanted.code,
    ]);
    expect(await snapshot(api.db)).toEqual(before);
  });
});

describe("a list holds nothing of another tenant's:", () => {
  const lists = known.filter(
    ({ route }) => route.method === "GET" && route.access !== "admin" && !/:id\/.*:/.test(route.path),
  );

  test.each(lists)("$name", async ({ route }) => {
    const { owner, stranger } = people;
    const theirs = await newTarget(api, stranger, { path: "/deployments/:id" });
    const theirToken = await newTarget(api, stranger, { path: "/tokens/:id" });
    const target = await newTarget(api, owner, route);
    const secrets = [stranger.id, stranger.email, theirs.projectId, theirs.params["id"], theirToken.params["id"]];
    const { text } = await visit(api, { route, params: target.params, options: asOwner() });
    expect(secrets.filter((secret) => text.includes(secret ?? "?"))).toEqual([]);
  });

  test("nor outside of the key's list", async () => {
    const { owner, otherProjectId } = people;
    const { key } = await api.newKey(owner, { projectIds: [otherProjectId] });
    const { body } = await api.call("GET", "/projects", { key });
    expect(body.projects.map(({ id }: { id: string }) => id)).toEqual([otherProjectId]);
  });

  test("nor before the cursor of another tenant's page", async () => {
    const { owner, stranger } = people;
    const [mine, theirs] = [await api.newProject(owner), await api.newProject(stranger)];
    await api.newDeployment(mine);
    for (let count = 0; count < 2; count += 1) await api.newDeployment(theirs);
    const list = (id: string, query: string, user = owner) =>
      api.call("GET", `/projects/${id}/deployments?${query}`, { session: user.session });
    const { body: foreign } = await list(theirs.id, "limit=1", stranger);
    const { body } = await list(mine.id, `cursor=${foreign.nextCursor}`);
    expect(body.deployments).toHaveLength(1);
  });
});
