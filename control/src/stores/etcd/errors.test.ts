import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { failureOf } from "./errors.ts";

test.each([
  { name: "UNAVAILABLE", code: "UNAVAILABLE", maybeApplied: true, memberFault: true },
  { name: "DEADLINE_EXCEEDED", code: "TIMEOUT", maybeApplied: true, memberFault: true },
  { name: "CANCELLED", code: "UNAVAILABLE", maybeApplied: true, memberFault: true },
  { name: "UNKNOWN", code: "UNAVAILABLE", maybeApplied: true, memberFault: true },
  { name: "INTERNAL", code: "UNAVAILABLE", maybeApplied: true, memberFault: true },
  { name: "NOT_FOUND", code: "LEASE_NOT_FOUND", maybeApplied: false, memberFault: false },
  { name: "OUT_OF_RANGE", code: "COMPACTED", maybeApplied: false, memberFault: false },
  { name: "INVALID_ARGUMENT", code: "REFUSED", maybeApplied: false, memberFault: false },
  { name: "RESOURCE_EXHAUSTED", code: "REFUSED", maybeApplied: false, memberFault: false },
  { name: "PERMISSION_DENIED", code: "REFUSED", maybeApplied: false, memberFault: false },
] as const)("grpc $name", ({ name, ...failure }) => {
  expect(failureOf(status[name])).toEqual(failure);
});

test("an error that is not grpc's counts as a broken transport", () => {
  expect(failureOf(-1)).toMatchObject({ maybeApplied: true, memberFault: true });
});
