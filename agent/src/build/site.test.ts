import { expect, test } from "vitest";
import { isCompressible, selectSite } from "./site.ts";

const anArchive = (files: string[], symlinks: Record<string, string> = {}) => ({
  files: new Map(files.map((path) => [path, {}])),
  symlinks: new Map(Object.entries(symlinks)),
});

test.each([
  { when: "the whole archive is the site", files: ["b.html", "a/c.css"], root: "", paths: ["a/c.css", "b.html"] },
  { when: "a directory is the site", files: ["dist/a.html", "src/b.js"], root: "dist", paths: ["a.html"] },
  { when: "another directory begins alike", files: ["dist/a.html", "dist2/b.html"], root: "dist", paths: ["a.html"] },
  { when: "there are dot-files", files: [".env", ".git/config", "a/.htaccess", "a.html"], root: "", paths: ["a.html"] },
  { when: "there is a well-known directory", files: [".well-known/x"], root: "", paths: [".well-known/x"] },
  { when: "the manifest is in it", files: ["svc.yml", "a.html"], root: "", paths: ["a.html"] },
])("when $when", ({ files, root, paths }) => {
  expect(selectSite(anArchive(files), root).map((file) => file.path)).toEqual(paths);
});

test("a link to a file is served as that file, other links are left out", () => {
  const archive = anArchive(["dist/a.html", "shared/logo.svg"], {
    "dist/logo.svg": "../shared/logo.svg",
    "dist/again.svg": "logo.svg",
    "dist/circle": "circle",
    "dist/dir": "../shared",
  });
  expect(selectSite(archive, "dist")).toEqual([
    { path: "a.html", source: "dist/a.html" },
    { path: "again.svg", source: "shared/logo.svg" },
    { path: "logo.svg", source: "shared/logo.svg" },
  ]);
});

test.each([
  { path: "a.js", sizeBytes: 2_000, worth: true },
  { path: "a.js", sizeBytes: 1_000, worth: false },
  { path: "a.png", sizeBytes: 2_000, worth: false },
  { path: "a.js.br", sizeBytes: 2_000, worth: false },
])("$path of $sizeBytes bytes: $worth", ({ path, sizeBytes, worth }) => {
  expect(isCompressible(path, sizeBytes)).toBe(worth);
});
