import { expect, test } from "vitest";
import { readCursor, writeCursor } from "./cursor.ts";

test("a cursor is read as it was written", () => {
  expect(readCursor(writeCursor(42))).toBe(42);
});

test.each([
  "",
  "x",
  "42",
  Buffer.from("42").toString("base64url"),
  Buffer.from("d-1").toString("base64url"),
  "a".repeat(512),
])("%s is no cursor", (cursor) => {
  expect(readCursor(cursor)).toBeNull();
});
