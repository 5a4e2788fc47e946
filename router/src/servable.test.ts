import type { Route } from "@svc/proto/edge";
import { expect, test } from "vitest";
import { type BundleState, servable } from "./servable.ts";
import { aPage, aProxy, aStatic, guarded } from "./testing/routes.ts";

const host = "a.test";
const page = aPage(host, "STOPPED");
const files = aStatic(host, `sha256:${"1".repeat(64)}`);

test.each<{
  when: string;
  wanted: Route[];
  bundle?: BundleState;
  serves?: (Route | null)[];
  problem?: string;
  waits?: true;
}>([
  { when: "a host moved", wanted: [page], serves: [page] },
  { when: "a host went", wanted: [], serves: [null] },
  { when: "the bundle is there", wanted: [files], bundle: "present", serves: [files] },
  { when: "the bundle is coming", wanted: [files], bundle: "coming", waits: true },
  { when: "the bundle does not come", wanted: [files], bundle: { problem: "it is lost" }, problem: "it is lost" },
  { when: "a route makes no sense", wanted: [aProxy(host)], problem: "no upstream" },
])("when $when", ({ wanted, bundle = "coming", serves = [], problem, waits = false }) => {
  const table = new Map([...wanted, aPage("other.test", "EMPTY")].map((route) => [route.host, route]));
  const result = servable(table, [host], new Map(), () => bundle);
  expect([...result.routes.values()]).toEqual(serves);
  expect(result.problems.get(host)).toBe(problem);
  expect(result.coming).toEqual(waits ? [host] : []);
  expect(result.bundles).toHaveLength(wanted.includes(files) ? 1 : 0);
});

test.each<{ when: string; wanted: Route; served?: Route; serves: Route[] }>([
  {
    when: "a password comes with files that are not there yet",
    wanted: guarded(files, "r1"),
    served: page,
    serves: [guarded(page, "r1")],
  },
  { when: "it goes with them", wanted: files, served: guarded(page, "r1"), serves: [page] },
  {
    when: "it comes with a route that makes no sense",
    wanted: guarded(aProxy(host), "r1"),
    served: page,
    serves: [guarded(page, "r1")],
  },
  { when: "nothing was served", wanted: guarded(files, "r1"), serves: [guarded(aPage(host, "EMPTY"), "r1")] },
  { when: "it stays as it is", wanted: guarded(files, "r1"), served: guarded(page, "r1"), serves: [] },
])("a host that keeps what it has takes over the password when $when", ({ wanted, served, serves }) => {
  const kept = new Map(served === undefined ? [] : [[host, served]]);
  const result = servable(new Map([[host, wanted]]), [host], kept, () => "coming");
  const shown = [...result.routes.values()].map((route) => route && { target: route.target, gate: route.gate });
  expect(shown).toEqual(serves.map(({ target, gate }) => ({ target, gate })));
});

test.each<{ when: string; wanted: Route; bundle: BundleState }>([
  { when: "its files are coming", wanted: files, bundle: "coming" },
  { when: "its files do not come", wanted: files, bundle: { problem: "it is lost" } },
  { when: "its route makes no sense", wanted: aProxy(host), bundle: "present" },
  { when: "it has a password as well", wanted: guarded(files, "r2"), bundle: "coming" },
])("of the project that had the host before nothing is kept when $when", ({ wanted, bundle }) => {
  const another = { ...guarded(page, "r1"), projectId: "p0" };
  const result = servable(new Map([[host, wanted]]), [host], new Map([[host, another]]), () => bundle);
  const empty = aPage(host, "EMPTY");
  expect([...result.routes.values()]).toEqual([{ ...empty, gate: wanted.gate }]);
});

test("one host that cannot be served does not hold up another", () => {
  const routes = [aProxy("../x", "10.0.0.1:1"), files, aPage("b.test", "EMPTY")];
  const table = new Map(routes.map((route) => [route.host, route]));
  const result = servable(table, table.keys(), new Map(), () => "coming");
  expect([...result.routes.keys()]).toEqual(["b.test"]);
  expect([...result.problems]).toEqual([["../x", "not a host name"]]);
  expect(result.coming).toEqual([host]);
});
