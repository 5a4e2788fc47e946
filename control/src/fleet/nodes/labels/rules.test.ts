import { describe, expect, test } from "vitest";
import { shownLabels, zoneOf } from "../../cluster/labels.ts";
import { changedLabels, labelChangeText } from "./rules.ts";

test.each([
  { said: {}, set: {}, shown: {}, zone: null },
  { said: { zone: "a", disk: "fast" }, set: {}, shown: { zone: "a", disk: "fast" }, zone: "a" },
  { said: { zone: "a" }, set: { zone: "b", room: "1" }, shown: { zone: "b", room: "1" }, zone: "b" },
  { said: {}, set: { zone: "" }, shown: { zone: "" }, zone: "" },
])("of a machine that says $said and of which operators say $set", ({ said, set, shown, zone }) => {
  const node = { labels: said, operator_labels: set };
  expect([shownLabels(node), zoneOf(node)]).toEqual([shown, zone]);
});

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`l${n}`, "x"]));

describe("a change", () => {
  test.each([
    { before: {}, change: { disk: "fast" }, labels: { disk: "fast" } },
    { before: { disk: "slow" }, change: { disk: "fast" }, labels: { disk: "fast" } },
    { before: { disk: "slow", zone: "a" }, change: { disk: null }, labels: { zone: "a" } },
    { before: { zone: "a" }, change: { disk: null }, labels: { zone: "a" } },
    { before: many(20), change: { l0: "y" }, labels: { ...many(20), l0: "y" } },
  ])("of $before by $change", ({ before, change, labels }) => {
    expect(changedLabels(before, change)).toEqual({ labels });
  });

  test("beyond what a machine may have is refused", () => {
    expect(changedLabels(many(20), { more: "x" })).toEqual({
      problem: expect.stringContaining("21, and 20 is the most"),
    });
    expect(changedLabels(many(20), { more: "x", l0: null })).toHaveProperty("labels.more", "x");
  });
});

test.each([
  { before: {}, after: {}, text: null },
  { before: { a: "1", b: "2" }, after: { b: "2", a: "1" }, text: null },
  {
    before: { zone: "a", room: "1" },
    after: { zone: "b", disk: "fast" },
    text: "disk=fast, without room, zone=b (was a)",
  },
  { before: {}, after: { empty: "" }, text: "empty=" },
])("from $before to $after is told as $text", ({ before, after, text }) => {
  expect(labelChangeText(before, after)).toBe(text);
});

test("what is told of a change has an end", () => {
  const long = Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`l${n}`, "ü".repeat(253)]));
  expect(Buffer.byteLength(labelChangeText({}, long) ?? "")).toBeLessThanOrEqual(500);
});
