import { expect, test } from "vitest";
import { roleOf, withRole } from "./rules.ts";

test.each([
  { stored: null, role: "user" },
  { stored: "", role: "user" },
  { stored: "user", role: "user" },
  { stored: "admin", role: "admin" },
  { stored: "support,admin", role: "admin" },
  { stored: "administrator", role: "user" },
] as const)("'$stored' is $role", ({ stored, role }) => {
  expect(roleOf(stored)).toBe(role);
});

test.each([
  { stored: null, role: "admin", becomes: "admin" },
  { stored: "user", role: "admin", becomes: "admin" },
  { stored: "admin", role: "admin", becomes: "admin" },
  { stored: "admin", role: "user", becomes: "user" },
  { stored: "support,admin,user", role: "user", becomes: "user,support" },
  { stored: "support", role: "admin", becomes: "admin,support" },
] as const)("'$stored' made $role is '$becomes'", ({ stored, role, becomes }) => {
  expect(withRole(stored, role)).toBe(becomes);
  expect(roleOf(becomes)).toBe(role);
});
