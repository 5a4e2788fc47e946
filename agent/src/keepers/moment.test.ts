import { expect, test } from "vitest";
import { isMoment, momentOf } from "./moment.ts";

test.each([
  { text: "2031-02-03T04:05:06Z", is: "2031-02-03T04:05:06.000000Z" },
  { text: "2031-02-03T04:05:06.7Z", is: "2031-02-03T04:05:06.700000Z" },
  { text: "2031-02-03T04:05:06.123456789Z", is: "2031-02-03T04:05:06.123456Z" },
  { text: "2031-02-03T04:05:06+00:00", is: null },
  { text: "2031-13-03T04:05:06Z", is: null },
  { text: "now'; DROP", is: null },
  { text: "", is: null },
])("the moment of $text is $is", ({ text, is }) => {
  expect(momentOf(text)).toBe(is);
});

test("only what has all six digits is a moment of a copy", () => {
  expect(isMoment("2031-02-03T04:05:06.000000Z")).toBe(true);
  expect(isMoment("2031-02-03T04:05:06Z")).toBe(false);
});
