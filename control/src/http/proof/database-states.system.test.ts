import { randomUUID } from "node:crypto";
import { databaseChannels, databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { apiEndpoints } from "../../server.ts";
import { createFindReadyBranch } from "../../tenants/databases/find-ready.ts";
import { sizeRecord } from "../../tenants/databases/sizes.ts";
import { newBranch } from "../../tenants/databases/testing/branch.ts";
import type { Endpoint } from "../endpoint.ts";
import { ApiError } from "../errors.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../testing.ts";
import { inBatches } from "./batches.ts";
import { type ContractRoute, knownRoutes, routeName } from "./contract.ts";
import { databaseOutcome, namedRoutes, type Situation } from "./database-states.ts";
import { allOtherScopes } from "./expected.ts";
import { newTarget } from "./targets.ts";
import { visit } from "./visit.ts";

const situationsAtOnce = 12;

let api: TestApi;
let owners: Record<"rich" | "poor", TestUser>;
let stranger: TestUser;
beforeAll(async () => {
  api = await testApi({
    studio: {
      ...sizeRecord,
      // Branches are found as ever; what a server says to whatever it is asked shows that it was asked.
      findReadyBranch: (...asked) => createFindReadyBranch(api.context.secrets)(...asked),
      openLine: () => Promise.reject(new Error("no node")),
      sql: { ask: () => Promise.reject(new ApiError("QUERY_ERROR")) },
      transfers: {
        exportTable: () => Promise.reject(new ApiError("QUERY_ERROR")),
        importTable: () => Promise.reject(new ApiError("QUERY_ERROR")),
      },
    },
  });
  const noLimits = { rate_limit_per_minute: null, max_projects: 100_000, max_backups: 100 };
  owners = {
    rich: await api.newUser({ plan: { ...noLimits, max_databases: 100_000 } }),
    poor: await api.newUser({ plan: { ...noLimits, max_databases: 0 } }),
  };
  stranger = await api.newUser({ plan: { ...noLimits, max_databases: 100_000 } });
});
afterAll(() => api?.[Symbol.asyncDispose]());

const routes = apiEndpoints.flatMap((spec: Endpoint) => {
  const route = knownRoutes.get(routeName(spec));
  return route?.path.startsWith("/projects/:id/database") ? [{ name: routeName(spec), route, spec }] : [];
});

type Placed = Situation & { engine: (typeof databaseEngines)[number] };

const well = { type: "ssr", channel: "production", inPlan: true, suspended: false, deleting: false } as const;
const branchStates = [null, "provisioning", "ready", "dropping", "error"] as const;
const conditions: readonly Partial<Situation>[] = [
  {},
  { inPlan: false },
  { suspended: true },
  { inPlan: false, suspended: true },
  { deleting: true },
];

const situations: readonly Placed[] = [
  ...databaseEngines.flatMap((engine) =>
    branchStates.flatMap((branch) => conditions.map((more) => ({ ...well, ...more, branch, engine }))),
  ),
  ...(["preview", "dev"] as const).flatMap((channel) =>
    branchStates.map((branch) => ({ ...well, channel, branch, engine: "postgres" as const })),
  ),
  ...databaseChannels.map((channel) => ({
    ...{ ...well, type: "ociimage" as const, channel, engine: "mariadb" as const },
    // It has no dev channel that could have one.
    branch: channel === "dev" ? null : ("ready" as const),
  })),
  ...conditions.map((more) => ({
    ...{ ...well, type: "static" as const, branch: null, engine: "postgres" as const },
    ...more,
  })),
];

const wordsOf = ({ engine, branch, type, channel, inPlan, suspended, deleting }: Placed): string =>
  [
    ...[type, channel, engine, branch ?? "absent"],
    ...[inPlan ? [] : ["not in the plan"], suspended ? ["suspended"] : [], deleting ? ["deleting"] : []].flat(),
  ].join(" ");

/** Makes what the path names, in a project that is as `placed` says. */
async function place(route: ContractRoute, owner: TestUser, placed: Placed): Promise<Readonly<Record<string, string>>> {
  const { db } = api;
  const { params } = await newTarget(api, owner, route);
  const id = params["id"] ?? "";
  await db.deleteFrom("database").where("project_id", "=", id).execute();
  await db.updateTable("project").set({ type: placed.type, db_engine: null }).where("id", "=", id).execute();
  if (placed.branch !== null) {
    const databaseId = await newBranch(api, { id }, { ...placed, status: placed.branch });
    await db
      .insertInto("task")
      .values({
        ...{ project_id: id, channel: placed.channel, owner_kind: "database", owner_id: databaseId, kind: "database" },
        spec: JSON.stringify({
          kind: "database",
          engine: placed.engine,
          image: "x",
          init: false,
          sizeMb: 1,
          connections: 1,
        }),
        ...{ spec_hash: "x", memory_mb: 1, cpu_millicores: 1, pids_limit: 1, node_id: randomUUID() },
      })
      .execute();
  }
  await db
    .updateTable("project")
    .set({
      deleting_at: placed.deleting ? new Date() : null,
      ...(placed.suspended && { suspended_at: new Date(), suspend_reason: "admin" as const }),
    })
    .where("id", "=", id)
    .execute();
  return params;
}

/** A branch's server was asked, or would have been given a WebSocket: nothing stood against it before that. */
const reached = new Set(["400 QUERY_ERROR", "400 BAD_REQUEST"]);

function outcomeOf({ status: wanted }: Endpoint, { status, body }: Answer): string {
  const told = body.error === undefined ? `${status}` : `${status} ${body.error.code}`;
  return told === `${wanted}` || reached.has(told) ? "done" : told;
}

/** Whether the channel that it is asked with says which branch is meant. */
const isOfChannel = ({ query, path }: Endpoint): boolean =>
  query !== null &&
  !path.includes("/:backupId") &&
  Object.hasOwn(z.toJSONSchema(query, { io: "input", unrepresentable: "any" }).properties ?? {}, "channel");

test("the contract says nothing of routes that are not there", () => {
  expect(namedRoutes.filter((name) => !routes.some((route) => route.name === name))).toEqual([]);
});

describe("in every state of a branch and its project", () => {
  test.each(routes)("$name answers as the contract says", async ({ route, spec }) => {
    const otherScopes = [...allOtherScopes(route)];
    const keys = {
      rich: await api.newKey(owners.rich, { scopes: otherScopes }),
      poor: await api.newKey(owners.poor, { scopes: otherScopes }),
    };
    // An example asks for one engine, whatever the project has.
    const creates = routeName(route) === "POST /projects/:id/database";
    const applicable = situations.filter(({ channel }) => channel === "production" || isOfChannel(spec));
    const found = await inBatches(applicable, situationsAtOnce, async (placed) => {
      const whose = placed.inPlan ? "rich" : "poor";
      const params = await place(route, owners[whose], placed);
      const query = placed.channel === "production" ? undefined : `channel=${placed.channel}`;
      const callers: readonly [who: string, options: CallOptions, wanted: string][] = [
        ["nobody", {}, "401 UNAUTHORIZED"],
        ["a key without the scope", { key: keys[whose].key }, "403 FORBIDDEN_SCOPE"],
        ["somebody else", { session: stranger.session }, "404 NOT_FOUND"],
        // The last one: what it may change is as it should be for the others.
        ["the owner", { session: owners[whose].session }, databaseOutcome(route, placed)],
      ];
      const surprises: string[] = [];
      for (const [who, options, wanted] of callers) {
        const called = { ...options, ...(creates && { body: { engine: placed.engine } }) };
        const told = outcomeOf(spec, await visit(api, { route, params, options: called, query }));
        if (told !== wanted) surprises.push(`${wordsOf(placed)}, ${who}: ${told} instead of ${wanted}`);
      }
      return surprises;
    });
    expect(found.flat()).toEqual([]);
  });
});
