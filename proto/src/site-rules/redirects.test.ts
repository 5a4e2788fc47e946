import { describe, expect, test } from "vitest";
import { decide, parseSiteRules, ruleDoubts } from "./index.ts";
import { ruleLimits } from "./text.ts";

const text = `
# moved
/old            /new
/gone/          /not-here         410
/blog/:year/:slug  /posts/:slug?from=:year  301
/docs/*         https://docs.example.test/:splat   308
/exists         /other
/forced         /other            302!   # a comment
/app/*          /app/index.html   200
/secret/*       /404.html         404!
/files/*.zip    /archive/:splat   303
/all/*          /:splat           301
/canonical/*    https://www.example.test/canonical/:splat  301!
`;
const { rules } = parseSiteRules({ _redirects: text });
const asked = (path: string, more: { query?: string; hasFile?: boolean; host?: string } = {}) =>
  decide(rules, { host: "www.example.test", path, query: "", hasFile: false, ...more });

describe("a visitor is sent on", () => {
  test.each([
    { path: "/old", status: 302, location: "/new" },
    { path: "/old/", status: 302, location: "/new" },
    { path: "/old", query: "?a=1", status: 302, location: "/new?a=1" },
    { path: "/blog/2024/hello%20w", status: 301, location: "/posts/hello%20w?from=2024" },
    { path: "/blog/2024/x", query: "?a=1", status: 301, location: "/posts/x?from=2024" },
    { path: "/docs/a/b", query: "?q", status: 308, location: "https://docs.example.test/a/b?q" },
    { path: "/docs", status: 308, location: "https://docs.example.test/" },
    { path: "/forced", hasFile: true, status: 302, location: "/other" },
    { path: "/files/a/b.zip", status: 303, location: "/archive/a/b" },
    // Neither to another host, nor into a header.
    { path: "/all//evil.test/x", status: 301, location: "/evil.test/x" },
    { path: "/all/%5Cevil.test", status: 301, location: "/%5Cevil.test" },
    { path: "/all/a%0D%0ASet-Cookie:x", status: 301, location: "/a%0D%0ASet-Cookie%3Ax" },
    { path: "/all/a%3Fb%23c", status: 301, location: "/a%3Fb%23c" },
    {
      path: "/canonical/x",
      host: "example.test",
      hasFile: true,
      status: 301,
      location: "https://www.example.test/canonical/x",
    },
  ])("from $path to $location", ({ path, status, location, ...more }) => {
    expect(asked(path, more)).toEqual({ do: "redirect", status, location });
  });
});

test.each([
  { path: "/", is: null },
  { path: "/older", is: null },
  { path: "/blog/2024", is: null },
  { path: "/exists", hasFile: true, is: null },
  { path: "/files/a.txt", is: null },
  { path: "/%ff", is: null },
  // It would lead back to itself.
  { path: "/canonical/x", is: null },
  { path: "/app/users/1", is: "/app/index.html" },
  { path: "/app/logo.png", hasFile: true, is: null },
  { path: "/secret/a", hasFile: true, is: "/404.html", isMissing: true },
])("at $path is $is", ({ path, is, isMissing = false, ...more }) => {
  expect(asked(path, more)).toEqual({ do: "serve", path: is, isMissing, headers: [] });
});

test.each([
  { path: "/a", location: "/first" },
  { path: "/a/", location: "/first" },
  { path: "/b", location: "/by-pattern" },
  { path: "/c", location: "/second" },
  // The one before would lead back.
  { path: "/d", location: "/by-pattern" },
])("of all rules that match the first in the file is taken: from $path to $location", ({ path, location }) => {
  const lines = [
    "/a /first",
    "/d https://www.example.test/d",
    "/c /second",
    "/:any /by-pattern",
    "/a /x",
    "/b /x",
    "/d /x",
  ];
  const { rules } = parseSiteRules({ _redirects: lines.join("\n") });
  const decision = decide(rules, { host: "www.example.test", path, query: "", hasFile: false });
  expect(decision).toMatchObject({ do: "redirect", location });
});

test("under a path that is too long for any file there is nothing, whatever the rules are", () => {
  const { rules } = parseSiteRules({ _redirects: "/* /index.html 200", _headers: "/*\n  X-A: b" });
  const path = (length: number) => `/${"a".repeat(length - 1)}`;
  const answer = (length: number) => decide(rules, { host: "a.test", path: path(length), query: "", hasFile: false });
  expect(answer(ruleLimits.askedPathMax)).toMatchObject({ path: "/index.html", isMissing: false });
  expect(answer(ruleLimits.askedPathMax + 1)).toMatchObject({ path: "/404.html", isMissing: true });
});

describe("a mistake is told with its line:", () => {
  test.each([
    { line: "/a", says: "A rule is" },
    { line: "a /b", says: `begins with "/"` },
    { line: "https://x.test/a /b", says: `begins with "/"` },
    { line: "/a b", says: "The target is" },
    { line: "/a //evil.test", says: "The target is" },
    { line: "/a /\\evil.test", says: "The target is" },
    { line: "/a javascript:alert(1)", says: "The target is" },
    { line: "/:host https://:host/x", says: "The target is" },
    { line: "/:h https://x.test:h/x", says: "The target is" },
    { line: "/a id=:id /b", says: "Conditions on the query" },
    { line: "/a /b 302 Country=de", says: "Conditions such as Country=de" },
    { line: "/a /b Language=de", says: "Conditions such as Language=de" },
    { line: "/a /b 301 302", says: "more than one status" },
    { line: "/a /b 418", says: "The status 418" },
    { line: "/a https://x.test/b 200", says: "With 200" },
    { line: "/a /b?c 200", says: "no query" },
    { line: "/a /a 301", says: "back to itself" },
    { line: "/*/* /b", says: "may be there once" },
    { line: "/*/:a /b", says: `Behind "*"` },
    { line: "/:a-b /b", says: "is no placeholder" },
    { line: "/:a/:a /b", says: "may be there once" },
    { line: "/:a /:b", says: ":b is not in the path" },
    { line: "/a /:splat", says: ":splat is not in the path" },
    { line: "/a?b /b", says: "queries are not supported" },
    { line: "/%ff /b", says: "not well encoded" },
    { line: `/${"a".repeat(ruleLimits.redirectLineMax)} /b`, says: "characters" },
  ])("$line", ({ line, says }) => {
    const { rules, problems } = parseSiteRules({ _redirects: `/ok /fine\n\n${line}\n` });
    expect(problems).toEqual([{ file: "_redirects", line: 3, message: expect.stringContaining(says) }]);
    expect(rules.redirects).toHaveLength(1);
  });
});

test("of too many rules, problems or bytes those beyond the bound have no effect", () => {
  const many = (count: number, line: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => line(n)).join("\n");
  const plain = parseSiteRules({ _redirects: many(ruleLimits.plainRedirectsMax + 1, (n) => `/${n} /x`) });
  expect(plain.rules.redirects).toHaveLength(ruleLimits.plainRedirectsMax);
  expect(plain.problems).toMatchObject([{ line: ruleLimits.plainRedirectsMax + 1 }]);
  const patterns = parseSiteRules({ _redirects: many(ruleLimits.patternRedirectsMax + 1, (n) => `/${n}/* /x`) });
  expect(patterns.rules.redirects).toHaveLength(ruleLimits.patternRedirectsMax);
  const large = parseSiteRules({ _redirects: "/a /b\n".padEnd(ruleLimits.fileBytesMax + 1, "#") });
  expect(large).toMatchObject({ rules: { redirects: [] }, problems: [{ file: "_redirects", line: 1 }] });
  const doubts = ruleDoubts(parseSiteRules({ _redirects: many(30, () => "/a") }).problems);
  expect(doubts).toHaveLength(ruleLimits.problemsMax + 1);
  expect(doubts[0]).toContain("_redirects line 1 has no effect");
  expect(doubts.at(-1)).toContain("10 more lines");
});
