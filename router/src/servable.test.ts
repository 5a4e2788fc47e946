import type { Route } from "@svc/proto/edge";
import { expect, test } from "vitest";
import { type BundleState, servable } from "./servable.ts";
import { aPage, aProxy, aStatic } from "./testing/routes.ts";

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
  const result = servable(table, [host], () => bundle);
  expect([...result.routes.values()]).toEqual(serves);
  expect(result.problems.get(host)).toBe(problem);
  expect(result.coming).toEqual(waits ? [host] : []);
  expect(result.bundles).toHaveLength(wanted.includes(files) ? 1 : 0);
});

test("one host that cannot be served does not hold up another", () => {
  const routes = [aProxy("../x", "a:1"), files, aPage("b.test", "EMPTY")];
  const table = new Map(routes.map((route) => [route.host, route]));
  const result = servable(table, table.keys(), () => "coming");
  expect([...result.routes.keys()]).toEqual(["b.test"]);
  expect([...result.problems]).toEqual([["../x", "not a host name"]]);
  expect(result.coming).toEqual([host]);
});
