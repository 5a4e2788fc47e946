import { expect, test } from "vitest";
import { knownDevice, markDevice } from "./known-device.ts";

const secret = "s".repeat(32);

test("a mark is known for its account, in any case of the address, and for no other", () => {
  const mark = markDevice(secret, "ada@svc.test");
  const device = knownDevice(secret, "Ada@svc.test", mark);
  expect(device).toMatch(/^[\w-]{22}$/);
  expect(knownDevice(secret, "eve@svc.test", mark)).toBeNull();
  expect(knownDevice("t".repeat(32), "ada@svc.test", mark)).toBeNull();
  expect(markDevice(secret, "ada@svc.test")).not.toBe(mark);
});

test.each([null, "", ".", "x.y", "a".repeat(22), `${"a".repeat(22)}.${"b".repeat(43)}`, `${"a".repeat(22)}.`])(
  "%j is no mark",
  (mark) => {
    expect(knownDevice(secret, "ada@svc.test", mark)).toBeNull();
  },
);
