import { combinableScopes, type Scope } from "@svc/proto";
import { describe, expect, test } from "vitest";
import type { ContractRoute, RouteAccess } from "./contract.ts";
import { knownRoutes } from "./contract.ts";
import { allOtherScopes, expected, type Proof, smallestGrant } from "./expected.ts";

const route = (name: string): ContractRoute => {
  const found = knownRoutes.get(name);
  if (found === undefined) throw new Error(`no route ${name}`);
  return found;
};
const aKey = (facts: Partial<Proof> = {}): Proof => ({
  kind: "key",
  scopes: null,
  reach: "every project",
  owner: true,
  ...facts,
});
const withScopes = (...scopes: Scope[]) => aKey({ scopes });
const aSession = (facts: Partial<Proof> = {}) => aKey({ kind: "session", ...facts });
const ciKey = (facts: Partial<Proof> = {}) => aKey({ scopes: ["ci:deploy"], reach: "this project", ...facts });
const outcome = (name: string, proof: Proof | null): string => {
  const result = expected(route(name), proof);
  return result === "in" ? "in" : `${result.status} ${result.code}`;
};

test.each([
  { who: "nobody", proof: null, name: "GET /projects", is: "401 UNAUTHORIZED" },
  { who: "nobody", proof: null, name: "POST /waitlist", is: "in" },
  { who: "nobody", proof: null, name: "GET /admin/users", is: "401 UNAUTHORIZED" },
  { who: "a session", proof: aSession(), name: "POST /tokens", is: "in" },
  { who: "a full key", proof: aKey(), name: "POST /tokens", is: "403 SESSION_REQUIRED" },
  { who: "a scoped key", proof: withScopes("projects:write"), name: "POST /tokens", is: "403 SESSION_REQUIRED" },
  { who: "a full key", proof: aKey(), name: "GET /account", is: "in" },
  { who: "every scope", proof: withScopes(...combinableScopes), name: "GET /account", is: "403 FORBIDDEN_SCOPE" },
  { who: "a scoped key", proof: withScopes("lifecycle"), name: "GET /me", is: "in" },
  { who: "damaged scopes", proof: withScopes(), name: "GET /me", is: "in" },
  { who: "damaged scopes", proof: withScopes(), name: "GET /projects", is: "403 FORBIDDEN_SCOPE" },
  { who: "the scope", proof: withScopes("projects:read"), name: "GET /projects/:id", is: "in" },
  { who: "the wider scope", proof: withScopes("projects:write"), name: "GET /projects/:id", is: "403 FORBIDDEN_SCOPE" },
  { who: "the stranger", proof: aKey({ owner: false }), name: "GET /projects/:id", is: "404 NOT_FOUND" },
  { who: "the stranger", proof: aKey({ owner: false }), name: "GET /projects", is: "in" },
  { who: "a limited key", proof: aKey({ reach: "this project" }), name: "GET /projects/:id", is: "in" },
  { who: "a limited key", proof: aKey({ reach: "another project" }), name: "GET /projects/:id", is: "404 NOT_FOUND" },
  { who: "a limited key", proof: aKey({ reach: "this project" }), name: "POST /projects", is: "403 FORBIDDEN_SCOPE" },
  { who: "a CI key", proof: ciKey(), name: "POST /projects/:id/deployments", is: "in" },
  {
    who: "another project's CI key",
    proof: ciKey({ reach: "another project" }),
    name: "POST /projects/:id/deployments",
    is: "404 NOT_FOUND",
  },
  { who: "the CI key that created it", proof: ciKey({ creator: true }), name: "GET /deployments/:id/logs", is: "in" },
  { who: "another CI key", proof: ciKey(), name: "GET /deployments/:id/logs", is: "404 NOT_FOUND" },
  {
    who: "a CI key",
    proof: ciKey({ creator: true }),
    name: "GET /deployments/:id/timeline",
    is: "403 FORBIDDEN_SCOPE",
  },
  { who: "a CI key", proof: ciKey(), name: "GET /me", is: "403 FORBIDDEN_SCOPE" },
  { who: "a session", proof: aSession(), name: "GET /admin/users", is: "403 FORBIDDEN" },
  { who: "a scoped key", proof: withScopes("deploy"), name: "GET /admin/users", is: "403 FORBIDDEN" },
  { who: "an admin", proof: aSession({ admin: true }), name: "GET /admin/users", is: "in" },
  {
    who: "an admin's scoped key",
    proof: aKey({ admin: true, scopes: combinableScopes }),
    name: "GET /admin/users",
    is: "403 FORBIDDEN_SCOPE",
  },
  {
    who: "an admin's limited key",
    proof: aKey({ admin: true, reach: "another project" }),
    name: "DELETE /admin/projects/:id",
    is: "403 FORBIDDEN_SCOPE",
  },
  {
    who: "an admin who is a stranger",
    proof: aSession({ admin: true, owner: false }),
    name: "GET /projects/:id",
    is: "404 NOT_FOUND",
  },
  {
    who: "an admin who is a stranger",
    proof: aSession({ admin: true, owner: false }),
    name: "DELETE /admin/projects/:id",
    is: "in",
  },
  { who: "a page elsewhere", proof: aSession({ cookie: "other page" }), name: "POST /tokens", is: "403 FORBIDDEN" },
  { who: "a page elsewhere", proof: aSession({ cookie: "other page" }), name: "GET /projects", is: "in" },
  { who: "our page", proof: aSession({ cookie: "own page" }), name: "POST /tokens", is: "in" },
])("$who gets $is from $name", ({ proof, name, is }) => {
  expect(outcome(name, proof)).toBe(is);
});

describe("scopes", () => {
  const needs = (access: RouteAccess): ContractRoute => ({ method: "GET", path: "/x", access });
  const both = needs({ all: [["jobs:read"], ["logs:read"]] });
  const either = needs({ all: [["database:query", "projects:write"]] });

  test.each([
    { of: both, scopes: ["jobs:read", "logs:read"] as const, is: "in" },
    { of: both, scopes: ["jobs:read"] as const, is: "refused" },
    { of: both, scopes: ["logs:read"] as const, is: "refused" },
    { of: either, scopes: ["database:query"] as const, is: "in" },
    { of: either, scopes: ["projects:write"] as const, is: "in" },
    { of: either, scopes: ["database:credentials"] as const, is: "refused" },
  ])("$scopes is $is", ({ of, scopes, is }) => {
    expect(expected(of, withScopes(...scopes)) === "in").toBe(is === "in");
  });

  test("the smallest grant opens a route and all others together do not", () => {
    for (const known of knownRoutes.values()) {
      const grant = smallestGrant(known);
      if (grant === null) continue;
      expect(expected(known, withScopes(...grant)), known.path).toBe("in");
      expect(expected(known, withScopes(...allOtherScopes(known))), known.path).not.toBe("in");
    }
  });
});
