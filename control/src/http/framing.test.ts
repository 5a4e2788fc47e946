import { expect, test } from "vitest";
import { framingProblem } from "./framing.ts";

const problemOf = (headers: Record<string, string>[], target = "/api/v1/me", httpVersion = "1.1") =>
  framingProblem({ target, httpVersion, rawHeaders: headers.flatMap((each) => Object.entries(each).flat()) });
const host = { Host: "svc.test" };

test.each([
  { what: "a plain one", headers: [host] },
  { what: "one to a port", headers: [{ host: "svc.test:4000" }] },
  { what: "one to an address", headers: [{ host: "127.0.0.1:4000" }] },
  { what: "one to an IPv6 address", headers: [{ host: "[::1]:4000" }] },
  {
    what: "one with a hundred headers",
    headers: [host, ...Array.from({ length: 99 }, (_, at) => ({ [`x-${at}`]: "1" }))],
  },
  { what: "one whose cookies come apart", headers: [host, { cookie: "a=1" }, { cookie: "b=2" }] },
])("$what is looked at", ({ headers }) => {
  expect(problemOf(headers)).toBeNull();
});

test("an old client that names no host is looked at", () => {
  expect(problemOf([], "/healthz", "1.0")).toBeNull();
});

test.each([
  { what: "no host", headers: [], status: 400 },
  { what: "an empty host", headers: [{ host: "" }], status: 400 },
  { what: "two hosts", headers: [host, { host: "evil.test" }], status: 400 },
  { what: "the same host twice, spelt otherwise", headers: [host, { hOsT: "svc.test" }], status: 400 },
  { what: "a host with a path", headers: [{ host: "svc.test/x" }], status: 400 },
  { what: "a host with a user", headers: [{ host: "a@svc.test" }], status: 400 },
  { what: "a list of hosts", headers: [{ host: "svc.test, evil.test" }], status: 400 },
  {
    what: "two credentials",
    headers: [host, { authorization: "Bearer a" }, { Authorization: "Bearer b" }],
    status: 400,
  },
  { what: "two origins", headers: [host, { origin: "http://svc.test" }, { origin: "http://evil.test" }], status: 400 },
  { what: "two types", headers: [host, { "content-type": "a/b" }, { "content-type": "c/d" }], status: 400 },
  {
    what: "a hundred and one headers",
    headers: [host, ...Array.from({ length: 100 }, (_, at) => ({ [`x-${at}`]: "1" }))],
    status: 431,
  },
])("one with $what is not", ({ headers, status }) => {
  expect(problemOf(headers)).toEqual({ status, message: expect.stringMatching(/^The .*\.$/) });
});

test.each(["http://evil.test/api/v1/me", "*", "evil.test:443", "", "api/v1/me"])("one to %j is not", (target) => {
  expect(problemOf([host], target)?.status).toBe(400);
});
