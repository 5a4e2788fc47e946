import { join } from "node:path/posix";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { directoryOf, pathProblem, rootProvenance, tidyPath, urlPathProblem } from "./paths.ts";

test.each([
  { path: "apps/web", tidy: "apps/web" },
  { path: "./apps//web/", tidy: "apps/web" },
  { path: ".", tidy: "." },
  { path: ".//", tidy: "." },
  { path: "..a/b..", tidy: "..a/b.." },
])("$path is tidied to $tidy", ({ path, tidy }) => {
  expect(pathProblem(path)).toBeNull();
  expect(tidyPath(path)).toBe(tidy);
});

test.each(["", "/etc", "..", "a/../b", "a/..", "C:/x", "a\\b", "~/x", "./~x", "-o", "./C:x", "a\0b", "a\nb"])(
  "%j is refused",
  (path) => {
    expect(pathProblem(path)).not.toBeNull();
  },
);

test("an accepted path stays inside its directory", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", ".", "/", "\\", "~", "b", ":", "-") }), (path) => {
      if (pathProblem(path) !== null) return;
      const tidy = tidyPath(path);
      expect(join("/root", tidy)).toMatch(/^\/root(\/|$)/);
      expect(tidyPath(tidy)).toBe(tidy);
      expect(pathProblem(tidy)).toBeNull();
    }),
  );
});

test.each(["/", "/health", "/a/b?c=d", "/%20"])("%s is a URL path", (path) => {
  expect(urlPathProblem(path)).toBeNull();
});
test.each([
  "",
  "health",
  "//evil.test",
  "http://evil.test",
  "/a/../b",
  "/..",
  "/%2e%2e/a",
  "/a b",
  "/a#b",
  "/a\\b",
  "/ü",
  "/a\r\nHost: x",
  "/{env.HOME}",
])("%j is no URL path", (path) => {
  expect(urlPathProblem(path)).not.toBeNull();
});

describe("where a deployment's source comes from", () => {
  test.each([
    {
      when: "nothing is said",
      source: {},
      is: { rootDirectory: ".", manifestPath: "svc.yml", watchPaths: ["**"] },
    },
    {
      when: "the manifest at the top chooses a directory",
      source: { rootDirectory: "apps/web" },
      is: { rootDirectory: "apps/web", manifestPath: "svc.yml", watchPaths: ["apps/web/**", "svc.yml"] },
    },
    {
      when: "the manifest lies in a directory",
      source: { manifestPath: "apps/web/svc.yml" },
      is: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml", watchPaths: ["apps/web/**"] },
    },
    {
      when: "a nested manifest names its own directory",
      source: { manifestPath: "apps/web/svc.yml", rootDirectory: "apps/web" },
      is: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml", watchPaths: ["apps/web/**"] },
    },
  ])("when $when", ({ source, is }) => {
    expect(rootProvenance(source)).toEqual(is);
  });

  test("a nested manifest cannot point elsewhere, not even up", () => {
    for (const rootDirectory of [".", "apps", "apps/api", "apps/web/sub"])
      expect(rootProvenance({ manifestPath: "apps/web/svc.yml", rootDirectory })).toHaveProperty("problem");
  });

  test("the directory of a path", () => {
    expect(directoryOf("svc.yml")).toBe(".");
    expect(directoryOf("a/b/svc.yml")).toBe("a/b");
  });
});
