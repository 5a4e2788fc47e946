import { expect, test } from "vitest";
import { uuid } from "../../stores/db/uuid.ts";
import { pageOf, placeOf, readCursor, serial, writeCursor } from "./place.ts";

const place = { micros: 1_700_000_000_123_456, id: "11111111-2222-4333-8444-555555555555" };

test("a cursor leads back to its place", () => {
  expect(readCursor(writeCursor(place), uuid)).toEqual(place);
  expect(readCursor(writeCursor({ micros: 0, id: "7" }), serial)).toEqual({ micros: 0, id: "7" });
});

test.each([
  { what: "nothing", cursor: "" },
  { what: "a text", cursor: "next" },
  { what: "another kind of id", cursor: writeCursor({ micros: 1, id: "7" }) },
  { what: "a number too long", cursor: Buffer.from(`9${"9".repeat(20)}/${place.id}`).toString("base64url") },
  { what: "more than a place", cursor: Buffer.from(`1/${place.id} or true`).toString("base64url") },
  { what: "a cursor in another writing", cursor: `${writeCursor(place)}=` },
])("$what is no cursor", ({ cursor }) => {
  expect(readCursor(cursor, uuid)).toBeNull();
  expect(() => placeOf(cursor, uuid)).toThrow("cursor");
});

test("a page ends where there is more, and the last one says so", () => {
  const rows = [3, 2, 1].map((micros) => ({ micros, id: String(micros) }));
  expect(pageOf(rows, 2)).toEqual({ page: rows.slice(0, 2), nextCursor: writeCursor({ micros: 2, id: "2" }) });
  expect(pageOf(rows, 3)).toEqual({ page: rows, nextCursor: null });
  expect(pageOf([], 3)).toEqual({ page: [], nextCursor: null });
});
