import { expect, test } from "vitest";
import { canonicalJson } from "./canonical-json.ts";

test("equal values give equal text, whatever the order of their keys", () => {
  const one = { b: 1, a: { d: [2, { f: 1, e: 2 }], c: null } };
  const other = { a: { c: null, d: [2, { e: 2, f: 1 }] }, b: 1 };
  expect(canonicalJson(one)).toBe(canonicalJson(other));
  expect(canonicalJson(one)).not.toBe(canonicalJson({ ...one, b: 2 }));
});
