import { expect, test } from "vitest";
import { decide, parseSiteRules } from "./index.ts";

const text = `
/*
  X-Frame-Options: DENY
  Link: </a.css>; rel=preload
  Link: </b.css>; rel=preload
/assets/*.js
\tCache-Control: public, max-age=60
# a comment
/users/:id
  X-Robots-Tag: noindex
  Set-Cookie: seen=1; Path=/
`;

test.each([
  { path: "/", names: ["X-Frame-Options", "Link", "Link"] },
  { path: "/assets/deep/a.js", names: ["X-Frame-Options", "Link", "Link", "Cache-Control"] },
  { path: "/assets/a.css", names: ["X-Frame-Options", "Link", "Link"] },
  { path: "/users/7", names: ["X-Frame-Options", "Link", "Link", "X-Robots-Tag", "Set-Cookie"] },
])("$path has $names", ({ path, names }) => {
  const { rules, problems } = parseSiteRules({ _headers: text });
  expect(problems).toEqual([]);
  const decision = decide(rules, { host: "a.test", path, query: "", hasFile: true });
  expect(decision.do === "serve" && decision.headers.map(({ name }) => name)).toEqual(names);
});

test.each([
  { line: "  X-A", says: "name, colon, value" },
  { line: "  X-A:", says: "no value" },
  { line: "  X A: b", says: "name, colon, value" },
  { line: "  X-A: ü", says: "characters that a header cannot have" },
  { line: "  X-A: a\u0000b", says: "characters that a header cannot have" },
  { line: "  ! X-A", says: "cannot be taken away" },
  { line: "  Strict-Transport-Security: max-age=1", says: "not set by a site" },
  { line: "  Set-Cookie: a=b; domain=example.test", says: "leave out Domain" },
  { line: "  Transfer-Encoding: chunked", says: "not a site's to set" },
  { line: "  connection: x", says: "not a site's to set" },
  { line: "  Content-Length: 1", says: "not a site's to set" },
  { line: "  X-Svc-Path: /x", says: "not a site's to set" },
  { line: "nothing", says: `begins with "/"` },
  { line: `  X-A: ${"b".repeat(2000)}`, says: "characters" },
])("$line is told with its line and has no effect", ({ line, says }) => {
  const { rules, problems } = parseSiteRules({ _headers: `/*\n  X-Ok: 1\n${line}\n` });
  expect(problems).toEqual([{ file: "_headers", line: 3, message: expect.stringContaining(says) }]);
  expect(rules.headers.flatMap(({ headers }) => headers.map(({ name }) => name))).toEqual(["X-Ok"]);
});

test("a header above the first path is told", () => {
  expect(parseSiteRules({ _headers: "  X-A: b\n" }).problems).toMatchObject([{ file: "_headers", line: 1 }]);
});
