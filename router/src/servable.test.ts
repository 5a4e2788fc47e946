import type { Route } from "@svc/proto/edge";
import { expect, test } from "vitest";
import { type BundleState, servable } from "./servable.ts";
import { aPage, aProxy, aStatic } from "./testing/routes.ts";

const table = (...routes: Route[]) => new Map(routes.map((route) => [route.host, route]));
const old = aProxy("a.test", "10.0.0.1:80");
const files = aStatic("a.test", `sha256:${"1".repeat(64)}`);

test.each<{
  when: string;
  wanted: Route[];
  bundle?: BundleState;
  serves: Route[];
  problems?: object;
  coming?: string[];
}>([
  { when: "nothing changed", wanted: [old], serves: [old] },
  { when: "a host moved", wanted: [aPage("a.test", "STOPPED")], serves: [aPage("a.test", "STOPPED")] },
  { when: "a host went", wanted: [], serves: [] },
  { when: "the bundle is there", wanted: [files], bundle: "present", serves: [files] },
  { when: "the bundle is coming", wanted: [files], bundle: "coming", serves: [old], coming: ["a.test"] },
  {
    when: "the bundle does not come",
    wanted: [files],
    bundle: { problem: "it is lost" },
    serves: [old],
    problems: { "a.test": "it is lost" },
  },
  {
    when: "a route makes no sense, and another does",
    wanted: [aProxy("a.test"), aPage("b.test", "EMPTY")],
    serves: [old, aPage("b.test", "EMPTY")],
    problems: { "a.test": "no upstream" },
  },
  {
    when: "a new host makes no sense",
    wanted: [old, aProxy("../x", "a:1")],
    serves: [old],
    problems: { "../x": "not a host name" },
  },
])("when $when", ({ wanted, bundle = "coming", serves, problems = {}, coming = [] }) => {
  const result = servable(table(old), table(...wanted), () => bundle);
  expect([...result.routes.values()]).toEqual(serves);
  expect(Object.fromEntries(result.problems)).toEqual(problems);
  expect(result.coming).toEqual(coming);
  expect(result.bundles).toHaveLength(wanted.filter((route) => route.target.case === "static").length);
});
