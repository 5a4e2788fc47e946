import { expect, it, test } from "vitest";
import { after, oneKey, underPrefix } from "./key-range.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

test.each([
  { prefix: "/svc/nodes/", key: "2f7376632f6e6f6465732f", end: "2f7376632f6e6f64657330" },
  { prefix: "é", key: "c3a9", end: "c3aa" },
  { prefix: "", key: "00", end: "00" },
])("the range under $prefix ends before the first key that is not under it", ({ prefix, key, end }) => {
  const range = underPrefix(prefix);
  expect([hex(range.key), hex(range.rangeEnd)]).toEqual([key, end]);
});

it("one key has no end", () => {
  expect(oneKey("a").rangeEnd).toHaveLength(0);
});

it("the next page starts just after the last key", () => {
  const page = after(underPrefix("a"), Buffer.from("ab"));
  expect([hex(page.key), hex(page.rangeEnd)]).toEqual(["616200", "62"]);
});
