import { expect, test } from "vitest";
import { knownDevice, linkDevice, linkedDevice, markDevice } from "./known-device.ts";

const secret = "s".repeat(32);
const ada = { email: "ada@svc.test", password: "salt:hash" };

test("a mark is known for its account, in any case of the address, and for no other", () => {
  const mark = markDevice(secret, ada);
  const device = knownDevice(secret, { ...ada, email: "Ada@svc.test" }, mark);
  expect(device).toMatch(/^[\w-]{22}$/);
  expect(knownDevice(secret, { ...ada, email: "eve@svc.test" }, mark)).toBeNull();
  expect(knownDevice("t".repeat(32), ada, mark)).toBeNull();
  expect(knownDevice(secret, { ...ada, password: "salt:other" }, mark)).toBeNull();
  expect(markDevice(secret, ada)).not.toBe(mark);
});

test.each([null, "", ".", "x.y", "a".repeat(22), `${"a".repeat(22)}.${"b".repeat(43)}`, `${"a".repeat(22)}.`])(
  "%j is no mark",
  (mark) => {
    expect(knownDevice(secret, ada, mark)).toBeNull();
  },
);

test("a link is good for its account until its time, is no mark, and no mark is a link", () => {
  const until = 1_800_000_000_000;
  const link = linkDevice(secret, ada, until);
  expect(linkedDevice(secret, { ...ada, email: "Ada@svc.test" }, link, until - 1)).toMatch(/^[\w-]{22}$/);
  expect(linkedDevice(secret, ada, link, until)).toBeNull();
  expect(linkedDevice(secret, { ...ada, email: "eve@svc.test" }, link, until - 1)).toBeNull();
  expect(linkedDevice("t".repeat(32), ada, link, until - 1)).toBeNull();
  expect(linkedDevice(secret, { ...ada, password: "salt:other" }, link, until - 1)).toBeNull();
  const later = link.replace(`${until}`, `${until + 1}`);
  for (const other of [later, "", "..", markDevice(secret, ada), `${link}x`])
    expect(linkedDevice(secret, ada, other, until - 1)).toBeNull();
  expect(knownDevice(secret, ada, link)).toBeNull();
});
