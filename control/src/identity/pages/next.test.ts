import { expect, test } from "vitest";
import { safeNext } from "./next.ts";

test.each([
  "/device",
  "/device?user_code=ABCD-EFGH",
  "/device?user_code=ABCDEFGH",
  "/verify-email?token=eyJhbGciOiJIUzI1NiJ9.eyJlbWFpbCI6ImEifQ.a-_b",
])("%s is kept", (next) => {
  expect(safeNext(next)).toBe(next);
});

test.each([
  undefined,
  "",
  "/",
  "//evil.test",
  "/\\evil.test",
  "/\t/evil.test",
  "https://evil.test",
  "/device@evil.test",
  "/device?user_code=A&next=//evil.test",
  "/verify-email",
  "/verify-email?token=a.b.c&callbackURL=//evil.test",
  "/verify-email?token=a.b.c#",
  "/verify-email?token=//evil.test",
  "/device?user_code=%0d%0aset-cookie:a=b",
  "/device\r\n",
  "/..//evil.test",
  "javascript:alert(1)",
])("%j leads home", (next) => {
  expect(safeNext(next)).toBe("/");
});
