import { expect, test } from "vitest";
import { describeDeviceRequest, displayUserCode, normaliseUserCode, readDeviceRequest } from "./device-request.ts";

test.each([
  { scope: "host:ada-laptop.local", hostname: "ada-laptop.local" },
  { scope: undefined, hostname: null },
  { scope: "openid", hostname: null },
  { scope: "host:<b>you</b>", hostname: null },
  { scope: 'host:x","address":"10.0.0.1', hostname: null },
  { scope: `host:${"a".repeat(300)}`, hostname: null },
  { scope: 7, hostname: null },
])("a program that says $scope is kept as host $hostname", ({ scope, hostname }) => {
  expect(readDeviceRequest(describeDeviceRequest(scope, "192.0.2.7"))).toEqual({ hostname, address: "192.0.2.7" });
});

test.each([undefined, null, "", "host:x", "{}", "[1]"])("%s was not written by us", (scope) => {
  expect(readDeviceRequest(scope)).toBeNull();
});

test.each([
  { typed: "ABCDEFGH", code: "ABCDEFGH" },
  { typed: " abcd-efgh ", code: "ABCDEFGH" },
  { typed: "ABCD EFG2", code: "ABCDEFG2" },
  { typed: "ABCDEFG", code: null },
  { typed: "ABCDEFGHI", code: null },
  { typed: "ABCDEFG0", code: null },
  { typed: "", code: null },
])("$typed is the code $code", ({ typed, code }) => {
  expect(normaliseUserCode(typed)).toBe(code);
});

test("a code is shown in two halves", () => {
  expect(displayUserCode("ABCDEFGH")).toBe("ABCD-EFGH");
});
