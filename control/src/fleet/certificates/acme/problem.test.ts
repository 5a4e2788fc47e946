import { expect, test } from "vitest";
import { readProblem, readRetryAfter, troubleOf } from "./problem.ts";

const urn = (type: string) => `urn:ietf:params:acme:error:${type}`;

test.each([
  { when: "a limit is reached", status: 429, body: { type: urn("rateLimited"), detail: "too many" }, is: "limited" },
  { when: "a limit is told with another status", status: 403, body: { type: urn("rateLimited") }, is: "limited" },
  { when: "the CA has a fault", status: 500, body: { type: urn("serverInternal") }, is: "away" },
  { when: "a name is refused", status: 400, body: { type: urn("rejectedIdentifier") }, is: "refused" },
])("when $when", ({ status, body, is }) => {
  const problem = readProblem(status, body);
  expect(problem && troubleOf(problem)).toBe(is);
});

test("of several problems the first is told", () => {
  const subproblems = [{ type: urn("caa"), detail: "CAA forbids it" }];
  expect(readProblem(403, { type: urn("compound"), detail: "several", subproblems })).toEqual({
    type: "caa",
    detail: "CAA forbids it",
    status: 403,
  });
});

test.each([null, "text", {}, { type: 7 }])("%j is no problem document", (body) => {
  expect(readProblem(400, body)).toBeNull();
});

test.each([
  ["120", 120_000],
  ["Tue, 01 Jan 2030 00:01:00 GMT", 60_000],
  ["Mon, 31 Dec 2029 00:00:00 GMT", 0],
  ["999999999", 7 * 86_400_000],
  ["soon", null],
  [undefined, null],
])("Retry-After: %s", (text, ms) => {
  expect(readRetryAfter(text, new Date("2030-01-01T00:00:00Z"))).toBe(ms);
});
