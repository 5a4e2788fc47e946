import { expect, test } from "vitest";
import { knownDevice, linkDevice, linkedDevice, markDevice } from "./known-device.ts";

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

test("a link is good for its account until its time, is no mark, and no mark is a link", () => {
  const until = 1_800_000_000_000;
  const link = linkDevice(secret, "ada@svc.test", until);
  expect(linkedDevice(secret, "Ada@svc.test", link, until - 1)).toMatch(/^[\w-]{22}$/);
  expect(linkedDevice(secret, "ada@svc.test", link, until)).toBeNull();
  expect(linkedDevice(secret, "eve@svc.test", link, until - 1)).toBeNull();
  expect(linkedDevice("t".repeat(32), "ada@svc.test", link, until - 1)).toBeNull();
  const later = link.replace(`${until}`, `${until + 1}`);
  for (const other of [later, "", "..", markDevice(secret, "ada@svc.test"), `${link}x`])
    expect(linkedDevice(secret, "ada@svc.test", other, until - 1)).toBeNull();
  expect(knownDevice(secret, "ada@svc.test", link)).toBeNull();
});
