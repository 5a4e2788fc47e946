import { expect, test } from "vitest";
import { cellText } from "./cells.ts";

test.each<[value: unknown, text: string]>([
  [null, "NULL"],
  ["", ""],
  ["NULL", "NULL"],
  [12, "12"],
  [true, "true"],
  [{ a: [1, null] }, '{"a":[1,null]}'],
  [["x", "y"], '["x","y"]'],
  ["two\nlines\tand\\more", "two\\nlines\\tand\\\\more"],
  ["C:\\temp", "C:\\temp"],
  ["é".repeat(200), `${"é".repeat(119)}…`],
])("%j is shown in one line", (value, text) => {
  expect(cellText(value)).toBe(text);
});
