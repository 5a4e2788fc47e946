import { limits } from "@svc/proto";
import { describe, expect, test } from "vitest";
import type { BuildTaskSpec } from "../tasks/kinds/build.ts";
import type { TaskSpec } from "../tasks/kinds/index.ts";
import type { ServeTaskSpec } from "../tasks/kinds/serve.ts";
import { grant, grantToEdge, needsOfPlacement, needsOfRun } from "./rules.ts";

const build = {
  kind: "build",
  sourceRepository: "svc/p1/source",
  targetRepository: "svc/p1/app",
  recipe: { static: { command: "", output: "dist" } },
} as BuildTaskSpec;
const serve = { kind: "serve", repository: "svc/p1/app", registryHost: null } as ServeTaskSpec;

describe("a placement", () => {
  const pull = ["pull"];
  const both = ["pull", "push"];
  const ofPlacement = (spec: TaskSpec | null, desired: "running" | "stopped" | "removed" | null = "running") =>
    needsOfPlacement(desired === null ? null : { desired }, spec);

  test.each([
    { when: "it serves its own image", spec: serve, repository: "svc/p1/app", expected: pull },
    { when: "it wants to write over its image", spec: serve, repository: "svc/p1/app", push: true, expected: null },
    { when: "it wants its project's source", spec: serve, repository: "svc/p1/source", expected: null },
    { when: "it wants another project's image", spec: serve, repository: "svc/p2/app", expected: null },
    { when: "it wants what begins like its own", spec: serve, repository: "svc/p1/app2", expected: null },
    { when: "it wants a base image and builds nothing", spec: serve, repository: "bases/node", expected: null },
    {
      when: "its image is in another registry",
      spec: { ...serve, registryHost: "r.test" },
      repository: "svc/p1/app",
      expected: null,
    },
    { when: "it is to stop", spec: serve, desired: "stopped" as const, repository: "svc/p1/app", expected: null },
    { when: "it is to go", spec: serve, desired: "removed" as const, repository: "svc/p1/app", expected: null },
    { when: "it is on another node, or nowhere", spec: serve, desired: null, repository: "svc/p1/app", expected: null },
    { when: "its task is gone", spec: null, repository: "svc/p1/app", expected: null },
    { when: "it builds and fetches its source", spec: build, repository: "svc/p1/source", expected: pull },
    { when: "it builds and asks what it pushed", spec: build, repository: "svc/p1/app", expected: pull },
    { when: "it builds and pushes", spec: build, repository: "svc/p1/app", push: true, expected: both },
    {
      when: "it builds and wants to replace its source",
      spec: build,
      repository: "svc/p1/source",
      push: true,
      expected: null,
    },
    {
      when: "it builds and wants to push elsewhere",
      spec: build,
      repository: "svc/p2/app",
      push: true,
      expected: null,
    },
    { when: "it builds upon a base image", spec: build, repository: "bases/docker.io/library/node", expected: pull },
    {
      when: "it builds and wants to replace a base image",
      spec: build,
      repository: "bases/node",
      push: true,
      expected: null,
    },
    {
      when: "it built and is to go",
      spec: build,
      desired: "removed" as const,
      repository: "svc/p1/app",
      push: true,
      expected: null,
    },
    { when: "it asks for nothing", spec: build, repository: "", expected: null },
  ])("when $when: $expected", ({ spec, desired, repository, push = false, expected }) => {
    const granted = grant(ofPlacement(spec, desired), { repository, push, mountFrom: "" });
    expect(granted).toEqual(expected && [{ type: "repository", name: repository, actions: expected }]);
  });

  test.each([
    { from: "bases/node", repository: "svc/p1/app", push: true, names: ["svc/p1/app", "bases/node"] },
    { from: "svc/p1/source", repository: "svc/p1/app", push: true, names: ["svc/p1/app", "svc/p1/source"] },
    { from: "svc/p2/app", repository: "svc/p1/app", push: true, names: null },
    { from: "bases/node", repository: "svc/p2/app", push: true, names: null },
    { from: "bases/node", repository: "svc/p1/app", push: false, names: null },
    { from: "bases/node", repository: "bases/other", push: true, names: null },
  ])("that builds may mount $from into $repository: $names", ({ from, repository, push, names }) => {
    const granted = grant(ofPlacement(build), { repository, push, mountFrom: from });
    expect(granted?.map(({ name }) => name) ?? null).toEqual(names);
    expect(granted?.slice(1).flatMap(({ actions }) => actions) ?? []).toEqual(names === null ? [] : ["pull"]);
  });
});

describe("a run attempt", () => {
  test.each([
    { state: "offered", cancel: false, expected: ["pull"] },
    { state: "started", cancel: false, expected: ["pull"] },
    { state: "offered", cancel: true, expected: null },
    { state: "exited", cancel: false, expected: null },
    { state: "refused", cancel: false, expected: null },
  ] as const)("that is $state, called off: $cancel, may $expected its image", ({ state, cancel, expected }) => {
    const needs = needsOfRun({ state, cancel }, "svc/p1/app");
    const granted = grant(needs, { repository: "svc/p1/app", push: false, mountFrom: "" });
    expect(granted?.map(({ actions }) => actions) ?? null).toEqual(expected && [expected]);
    expect(grant(needs, { repository: "svc/p1/app", push: true, mountFrom: "" })).toBeNull();
    expect(grant(needs, { repository: "bases/node", push: false, mountFrom: "" })).toBeNull();
  });

  test("of another node, or of a deployment without an image, may do nothing", () => {
    for (const needs of [needsOfRun(null, "svc/p1/app"), needsOfRun({ state: "offered", cancel: false }, null)])
      expect(grant(needs, { repository: "svc/p1/app", push: false, mountFrom: "" })).toBeNull();
  });
});

describe("an edge", () => {
  const bundle = (repository: string) => ({
    target: { case: "static" as const, value: { repository } as never },
  });
  const proxy = { target: { case: "proxy" as const, value: { upstreams: ["10.0.0.7:1"] } as never } };
  const routes = [proxy, bundle("svc/p1/bundle"), bundle("svc/p2/bundle")];

  test.each([
    ["svc/p1/bundle", ["pull"]],
    ["svc/p2/bundle", ["pull"]],
    ["svc/p3/bundle", null],
    ["svc/p1/source", null],
    ["svc/p1/app", null],
    ["bases/node", null],
    ["", null],
  ])("may, of %s: %j", (repository, expected) => {
    const access = expected && [{ type: "repository", name: repository, actions: expected }];
    expect(grantToEdge(routes, repository)).toEqual(access);
  });
});

test("a token lasts as long as the longest pull and the longest build, in which the push is the end", () => {
  expect(limits.registryTokenSeconds).toBeGreaterThanOrEqual(Math.max(limits.pullSecondsMax, limits.buildSecondsMax));
});
