import { expect, test } from "vitest";
import { parseIgnore } from "./ignore.ts";

test("patterns that are made to take long are refused, and stop nobody for long", () => {
  const isIgnored = parseIgnore(`${"*a".repeat(200)}b`);
  const before = process.cpuUsage();
  expect(isIgnored("a".repeat(200))).toBe(false);
  const all = () => Array.from({ length: 100_000 }, (_, index) => isIgnored(`${"a".repeat(200)}${index}`));
  expect(all).toThrow("too many stars");
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(20_000);
});

test.each([
  {
    pattern: "node_modules",
    ignored: ["node_modules", "node_modules/a/b.js"],
    kept: ["a/node_modules", "node_modulesx"],
  },
  { pattern: "**/node_modules", ignored: ["node_modules", "a/b/node_modules/c"], kept: ["a/node_modules.txt"] },
  { pattern: "*.md", ignored: ["README.md"], kept: ["docs/a.md"] },
  { pattern: "**/*.md", ignored: ["README.md", "docs/x/a.md"], kept: ["a.mdx"] },
  { pattern: "docs/**", ignored: ["docs/a", "docs/b/c"], kept: ["docs", "other/docs"] },
  { pattern: "/build/", ignored: ["build/x"], kept: ["src/build"] },
  { pattern: "./a?c", ignored: ["abc"], kept: ["ac", "a/c"] },
  { pattern: "file[0-9].txt", ignored: ["file1.txt"], kept: ["filex.txt"] },
  { pattern: "file[!0-9].txt", ignored: ["filex.txt"], kept: ["file1.txt"] },
  { pattern: "# comment\n\n*\n!src\n!package.json", ignored: ["a", "srcs"], kept: ["src/a.js", "package.json"] },
  { pattern: "*.md\n!README.md\nREADME*", ignored: ["README.md", "a.md"], kept: ["src"] },
  { pattern: "a/../b", ignored: ["b"], kept: ["a"] },
  { pattern: "with\\*star", ignored: ["with*star"], kept: ["with-star"] },
  { pattern: "[z-a]\n[", ignored: ["["], kept: ["z"] },
  { pattern: ".env*\n!.env.example", ignored: [".env", ".env.local"], kept: [".env.example", "src/.env"] },
  { pattern: "a/**/b", ignored: ["a/b", "a/x/b", "a/x/y/b/c"], kept: ["a/xb", "ab", "x/a/b"] },
  { pattern: "a**b", ignored: ["ab", "a/b", "axx/b"], kept: ["axb", "a/xb"] },
  { pattern: "**", ignored: ["a", "a/b"], kept: [] },
  { pattern: "*/*", ignored: ["a/b", "a/b/c"], kept: ["a"] },
  { pattern: "*a*a*b", ignored: ["aab", "xaxaxb"], kept: ["ab", "aa/b", "aba"] },
])("$pattern", ({ pattern, ignored, kept }) => {
  const isIgnored = parseIgnore(pattern);
  expect(ignored.filter((path) => !isIgnored(path))).toEqual([]);
  expect(kept.filter(isIgnored)).toEqual([]);
});
