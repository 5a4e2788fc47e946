import { combinableScopes, type Scope } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { apiEndpoints } from "../../server.ts";
import { denial, type Principal } from "../access.ts";
import { additions, completeSections, contract, knownRoutes, routeName } from "./contract.ts";
import { allOtherScopes, expected, type Proof } from "./expected.ts";

const registered = new Map(apiEndpoints.map((spec) => [routeName(spec), spec]));

describe("the table of routes", () => {
  test("names each once", () => {
    const names = [...Object.values(contract).flat(), ...additions].map(routeName);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  test("names no route among ours that the contract has", () => {
    const ofContract = Object.values(contract).flat().map(routeName);
    expect(additions.map(routeName).filter((name) => ofContract.includes(name))).toEqual([]);
  });
});

test.each(completeSections)("every route of the section on %s is served", (section) => {
  expect(contract[section].map(routeName).filter((name) => !registered.has(name))).toEqual([]);
});

test("every route of ours is served", () => {
  expect(additions.map(routeName).filter((name) => !registered.has(name))).toEqual([]);
});

test("no route is served that is neither the contract's nor a declared addition", () => {
  expect([...registered.keys()].filter((name) => !knownRoutes.has(name))).toEqual([]);
});

/** Everybody who can be told apart before anything is looked up. */
const scopeSets: readonly (readonly Scope[] | null)[] = [
  null,
  [],
  ["ci:deploy"],
  ...combinableScopes.map((each) => [each]),
  ...combinableScopes.flatMap((one, index) => combinableScopes.slice(index + 1).map((other) => [one, other])),
  combinableScopes,
];
const principals: readonly Principal[] = [true, false].flatMap((isAdmin) => [
  { kind: "session" as const, isAdmin, scopes: null, projectIds: null },
  ...scopeSets.map((scopes) => ({ kind: "key" as const, isAdmin, scopes, projectIds: null })),
]);
const proofOf = ({ kind, isAdmin, scopes }: Principal): Proof => ({
  kind,
  admin: isAdmin,
  scopes,
  reach: "every project",
  owner: true,
  creator: true,
});

const declared = [...registered].flatMap(([name, spec]) => {
  const route = knownRoutes.get(name);
  return route === undefined ? [] : [{ name, spec, route }];
});

test.each(declared)("$name is declared with exactly the contract's access", ({ spec, route }) => {
  const everybody = [
    null,
    ...principals,
    { kind: "key" as const, isAdmin: false, scopes: allOtherScopes(route), projectIds: null },
  ];
  for (const principal of everybody) {
    const wanted = expected(route, principal === null ? null : proofOf(principal));
    const found = denial(principal, spec.access)?.code ?? "in";
    expect(found, JSON.stringify(principal)).toBe(wanted === "in" ? "in" : wanted.code);
  }
});
