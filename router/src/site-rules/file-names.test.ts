import { expect, test } from "vitest";
import { fileNamesOf } from "./file-names.ts";

test.each([
  { path: "/", names: ["index.html"] },
  { path: "//", names: ["index.html"] },
  { path: "/a", names: ["a", "a.html", "a/index.html"] },
  { path: "/a/b/", names: ["a/b", "a/b.html", "a/b/index.html"] },
  { path: "/a%20b", names: ["a b", "a b.html", "a b/index.html"] },
  { path: "/../secret.txt", names: [] },
  { path: "/a/%2e%2e%2f%2e%2e/secret.txt", names: [] },
  { path: "/a%00", names: [] },
  { path: "/%ff", names: [] },
])("under $path are $names", ({ path, names }) => {
  expect(fileNamesOf(path)).toEqual(names);
});
