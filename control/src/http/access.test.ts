import { allScopes, combinableScopes, type Scope } from "@svc/proto";
import { expect, test } from "vitest";
import { type Access, denial, type Principal } from "./access.ts";

const session: Principal = { kind: "session", isAdmin: false, scopes: null, projectIds: null };
const fullKey: Principal = { ...session, kind: "key" };
const keyWith = (...scopes: Scope[]): Principal => ({ ...fullKey, scopes });
const ciKey: Principal = { ...keyWith("ci:deploy"), projectIds: ["p1"] };
const limitedKey: Principal = { ...fullKey, projectIds: ["p1"] };
const admin = (principal: Principal): Principal => ({ ...principal, isAdmin: true });

const ok = null;
const classes: Access[] = [
  "none",
  "any",
  "full",
  "session",
  "admin",
  { scope: "deploy" },
  { scope: "deploy", orCiKey: true },
];

test.each([
  {
    who: "nobody",
    principal: null,
    codes: [ok, "UNAUTHORIZED", "UNAUTHORIZED", "UNAUTHORIZED", "UNAUTHORIZED", "UNAUTHORIZED", "UNAUTHORIZED"],
  },
  { who: "a session", principal: session, codes: [ok, ok, ok, ok, "FORBIDDEN", ok, ok] },
  { who: "a full-access key", principal: fullKey, codes: [ok, ok, ok, "SESSION_REQUIRED", "FORBIDDEN", ok, ok] },
  {
    who: "a full-access key of some projects",
    principal: limitedKey,
    codes: [ok, ok, ok, "SESSION_REQUIRED", "FORBIDDEN", ok, ok],
  },
  {
    who: "a key with the scope",
    principal: keyWith("deploy"),
    codes: [ok, ok, "FORBIDDEN_SCOPE", "SESSION_REQUIRED", "FORBIDDEN", ok, ok],
  },
  {
    who: "a key with another scope",
    principal: keyWith("projects:read"),
    codes: [ok, ok, "FORBIDDEN_SCOPE", "SESSION_REQUIRED", "FORBIDDEN", "FORBIDDEN_SCOPE", "FORBIDDEN_SCOPE"],
  },
  {
    who: "a key whose scopes could not be read",
    principal: keyWith(),
    codes: [ok, ok, "FORBIDDEN_SCOPE", "SESSION_REQUIRED", "FORBIDDEN", "FORBIDDEN_SCOPE", "FORBIDDEN_SCOPE"],
  },
  {
    who: "a CI key",
    principal: ciKey,
    codes: [ok, "FORBIDDEN_SCOPE", "FORBIDDEN_SCOPE", "SESSION_REQUIRED", "FORBIDDEN", "FORBIDDEN_SCOPE", ok],
  },
  { who: "an administrator's session", principal: admin(session), codes: [ok, ok, ok, ok, ok, ok, ok] },
  {
    who: "an administrator's full-access key",
    principal: admin(fullKey),
    codes: [ok, ok, ok, "SESSION_REQUIRED", ok, ok, ok],
  },
  {
    who: "an administrator's scoped key",
    principal: admin(keyWith("deploy")),
    codes: [ok, ok, "FORBIDDEN_SCOPE", "SESSION_REQUIRED", "FORBIDDEN_SCOPE", ok, ok],
  },
  {
    who: "an administrator's key of some projects",
    principal: admin(limitedKey),
    codes: [ok, ok, ok, "SESSION_REQUIRED", "FORBIDDEN_SCOPE", ok, ok],
  },
])("$who", ({ principal, codes }) => {
  expect(classes.map((access) => denial(principal, access)?.code ?? null)).toEqual(codes);
});

test("a key with one scope opens the routes of that scope and no other", () => {
  const transitional = new Set(["projects:write database:query", "projects:write database:credentials"]);
  for (const granted of combinableScopes) {
    for (const needed of allScopes) {
      const opens = denial(keyWith(granted), { scope: needed }) === null;
      expect(opens, `${granted} -> ${needed}`).toBe(granted === needed || transitional.has(`${granted} ${needed}`));
    }
  }
});

test("the message names the missing scope, or says what full access is", () => {
  expect(denial(keyWith("deploy"), { scope: "env:write" })?.message).toContain("env:write");
  expect(denial(keyWith("deploy"), "full")?.message).toContain("a session or a full-access token");
});
