import { describe, expect, test } from "vitest";
import { allScopes, ciDeployProblem, combinableScopes, readStoredScopes, type Scope, satisfies } from "./scopes.ts";

test("everything but ci:deploy can be combined", () => {
  expect(allScopes).toHaveLength(15);
  expect(combinableScopes).toHaveLength(14);
  expect(combinableScopes).not.toContain("ci:deploy");
});

describe("satisfies", () => {
  test.each<{ granted: Scope[] | null; needed: Scope; is: boolean }>([
    { granted: null, needed: "env:write", is: true },
    { granted: [], needed: "projects:read", is: false },
    { granted: ["projects:read"], needed: "projects:read", is: true },
    { granted: ["projects:write"], needed: "projects:read", is: false },
    { granted: ["projects:write"], needed: "database:query", is: true },
    { granted: ["projects:write"], needed: "database:credentials", is: true },
    { granted: ["database:query"], needed: "projects:write", is: false },
    { granted: ["ci:deploy"], needed: "deploy", is: false },
  ])("$granted for $needed: $is", ({ granted, needed, is }) => {
    expect(satisfies(granted, needed)).toBe(is);
  });
});

describe("stored scopes never read as more than was granted", () => {
  test.each([
    { stored: null, projects: null, read: null },
    { stored: ["deploy", "logs:read"], projects: null, read: ["deploy", "logs:read"] },
    { stored: undefined, projects: null, read: [] },
    { stored: {}, projects: null, read: [] },
    { stored: "*", projects: null, read: [] },
    { stored: [], projects: null, read: [] },
    { stored: ["projects:read", 7], projects: null, read: [] },
    { stored: ["toString"], projects: null, read: [] },
    { stored: ["ci:deploy"], projects: ["p1"], read: ["ci:deploy"] },
    { stored: ["ci:deploy"], projects: null, read: [] },
    { stored: ["ci:deploy"], projects: ["p1", "p2"], read: [] },
    { stored: ["ci:deploy", "env:read"], projects: ["p1"], read: [] },
  ])("$stored with projects $projects", ({ stored, projects, read }) => {
    expect(readStoredScopes(stored, projects)).toEqual(read);
  });
});

test("ci:deploy stands alone with one project", () => {
  expect(ciDeployProblem(["ci:deploy"], ["p"])).toBeNull();
  expect(ciDeployProblem(["deploy"], null)).toBeNull();
  expect(ciDeployProblem(["ci:deploy", "deploy"], ["p"])).toContain("only scope");
  expect(ciDeployProblem(["ci:deploy"], [])).toContain("exactly one project");
});
