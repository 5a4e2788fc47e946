import { expect, test } from "vitest";
import { linkEvent } from "./links.ts";

test.each([
  { last: null, link: "connected", adds: "connected" },
  { last: null, link: "unreachable", adds: null },
  { last: null, link: "suspect", adds: null },
  { last: "connected", link: "connected", adds: null },
  { last: "connected", link: "reconciling", adds: null },
  { last: "connected", link: "suspect", adds: "suspect" },
  { last: "suspect", link: "connected", adds: "connected" },
  { last: "suspect", link: "unreachable", adds: "unreachable" },
  { last: "connected", link: "unknown", adds: null },
  { last: "unreachable", link: "unreachable", adds: null },
  { last: "unreachable", link: "connected", adds: "connected" },
  { last: "unreachable", link: "quarantined", adds: null },
] as const)("after $last, $link adds $adds", ({ last, link, adds }) => {
  expect(linkEvent(last, link)).toBe(adds);
});
