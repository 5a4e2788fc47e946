import { expect, test } from "vitest";
import { displayWidth } from "./format.ts";
import { listing } from "./listing.ts";
import { plain } from "./paint.ts";

const titles = ["SLUG", "STATUS", "REQUESTS 30 D", "URL"];
const rows = [
  ["shop", "running", "12", "https://shop.example.test (password)"],
  ["blog", "suspended", "1000", "https://blog.example.test"],
];
const at = (columns: number | null) => listing(titles, rows, { paint: plain, columns }, { alignRight: [2] });

test.each([null, 80, 70])("%s columns have room for a table", (columns) => {
  expect(at(columns).split("\n")).toEqual([
    "SLUG  STATUS     REQUESTS 30 D  URL",
    "shop  running               12  https://shop.example.test (password)",
    "blog  suspended           1000  https://blog.example.test",
  ]);
});

test.each([60, 50, 42])("on %i columns things stand below one another, and no line is wider", (columns) => {
  const lines = at(columns).split("\n");
  expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(columns);
  expect(lines.filter((line) => !line.startsWith(" "))).toEqual(["shop", "blog"]);
  expect(lines).toContain("  requests 30 d  1000");
});

test("what does not fit into its line goes on in the next", () => {
  expect(at(42).split("\n").slice(0, 5)).toEqual([
    "shop",
    "  status         running",
    "  requests 30 d  12",
    "  url            https://shop.example.test",
    "                 (password)",
  ]);
});

test.each([null, 42])("with %s columns the lines below a thing follow it", (columns) => {
  const below = [["  it falls over"], []];
  const lines = listing(titles, rows, { paint: plain, columns }, { below }).split("\n");
  const next = lines.findIndex((line) => line.startsWith("blog"));
  expect(lines[next - 1]).toBe("  it falls over");
  expect(lines.filter((line) => line.includes("falls over"))).toHaveLength(1);
});

test.each([null, 12])("with %s columns a name with a line break in it stays in its line", (columns) => {
  const named = [
    ["a\nb", "running"],
    ["c", "stopped\nby hand"],
  ];
  const lines = listing(["TABLE", "STATUS"], named, { paint: plain, columns }).split("\n");
  expect(lines.filter((line) => /^[abc]/.test(line)).map((line) => line.split(" ")[0])).toEqual([
    String.raw`a\nb`,
    "c",
  ]);
});
