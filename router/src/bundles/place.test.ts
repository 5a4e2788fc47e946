import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { contentTime, placeOf } from "./place.ts";

test.each([
  { name: "index.html", segments: ["index.html"] },
  { name: "./a/./b//c.txt", segments: ["a", "b", "c.txt"] },
  { name: ".well-known/assetlinks.json", segments: [".well-known", "assetlinks.json"] },
  { name: "what? [x] {y} *.html", segments: ["what? [x] {y} *.html"] },
  { name: "ümlaut/日本.txt", segments: ["ümlaut", "日本.txt"] },
])("$name is published", ({ name, segments }) => {
  expect(placeOf(name, "file")).toEqual({ kind: "file", segments });
});

test.each([".env", ".svc/manifest.json", "a/.git/config", ".well-known/.secret", "a/.well-known/x", "./.htaccess"])(
  "%s stays hidden",
  (name) => {
    expect(placeOf(name, "file")).toEqual({ kind: "hidden" });
  },
);

test("the root itself is a directory", () => {
  for (const name of [".", ".//", ""]) expect(placeOf(name, "directory")).toEqual({ kind: "directory", segments: [] });
});

describe("there is no place for", () => {
  test.each([
    "../x",
    "a/../../x",
    "a/..",
    "/etc/passwd",
    "a\\..\\x",
    "a\0b",
    "a\nb",
    "a\u001b[2Jb",
    "broken\ufffd",
    `${"a".repeat(256)}`,
    `${"é".repeat(128)}`,
    "a/".repeat(65),
    `${"abcdefg/".repeat(200)}x`,
    "",
  ])("a file named %j", (name) => expect(placeOf(name, "file")).toHaveProperty("problem"));

  test.each(["symlink", "hardlink", "pipe", "device", "sparse", "unknown"] as const)("a %s", (type) =>
    expect(placeOf("a", type)).toHaveProperty("problem"),
  );
});

test("whatever has a place is below the root", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-c./\\-]{0,20}$/), (name) => {
      const place = placeOf(name, "file");
      if (!("segments" in place)) return;
      expect(place.segments.length).toBeGreaterThan(0);
      for (const segment of place.segments) expect(segment).not.toMatch(/^\.{0,2}$|\/|\\/);
    }),
  );
});

test("the time that stands for content lies within what every file system keeps", () => {
  expect(contentTime(new Uint8Array([0, 0, 0, 0]))).toBe(2 ** 30);
  expect(contentTime(new Uint8Array([255, 255, 255, 255]))).toBe(2 ** 31 - 1);
  expect(contentTime(new Uint8Array([1, 2, 3, 4]))).not.toBe(contentTime(new Uint8Array([1, 2, 3, 5])));
});
