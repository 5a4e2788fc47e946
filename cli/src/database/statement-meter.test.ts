import { expect, test } from "vitest";
import { createStatementMeter } from "./statement-meter.ts";

test.each([
  ["", 0],
  ["select 1;\nselect 12;\n", 11],
  ["select 1;\nselect 12", 9 + 1],
  ["insert into t values\n(1),\n(2);\nselect 1;\n", 31],
  ["insert into t values ('a;\\nb');\nselect 1;\n", 32],
  ["select 1;\r\nselect 2;\r\n", 11],
  ["\n\n;\n", 4],
])("the longest statement of %j has %i bytes, however it was cut", (text, expected) => {
  for (const size of [1, 2, 3, 1000]) {
    const meter = createStatementMeter();
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size) meter.push(bytes.subarray(at, at + size));
    expect(meter.longestBytes()).toBe(expected);
  }
});
