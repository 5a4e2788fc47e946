import { describe, expect, test } from "vitest";
import { BadMessage, nameBytes, readReply, updateMessage } from "./message.ts";
import { recorded } from "./testing.ts";
import { checkReply, signMessage } from "./tsig.ts";

const { id, at, key, change, added, removed } = recorded;
const bytes = (hex: string) => Buffer.from(hex, "hex");
const signed = (is: "added" | "removed") => signMessage(updateMessage(id, { ...change, is }), key, at);
const check = (answer: Buffer, { of = key, now = at, is = "added" as "added" | "removed" } = {}) =>
  checkReply(answer, readReply(answer), { key: of, mac: signed(is).mac, now });

test.each([
  { is: "added", as: added },
  { is: "removed", as: removed },
] as const)("a string that is $is is written as a server takes it, and its answer is believed", ({ is, as }) => {
  expect(signed(is).signed.toString("hex")).toBe(as.sent);
  expect(readReply(bytes(as.answer))).toMatchObject({ id, rcode: 0 });
  check(bytes(as.answer), { is });
});

describe("an answer is not believed", () => {
  const other = bytes(added.answer);
  other.writeUInt8(other.readUInt8(3) | 5, 3);
  test.each([
    { when: "it is to another request", answer: bytes(removed.answer) },
    { when: "it was changed on its way", answer: other },
    { when: "the secret is another one", answer: bytes(added.answer), of: { ...key, secret: Buffer.alloc(32) } },
    { when: "the key is another one", answer: bytes(added.answer), of: { ...key, name: "svc-other" } },
    { when: "it is six minutes old", answer: bytes(added.answer), now: new Date(at.getTime() + 360_000) },
    { when: "it is not signed", answer: bytes(recorded.notAuthoritative) },
  ])("when $when", ({ answer, ...rest }) => {
    expect(() => check(answer, rest)).toThrow(BadMessage);
  });
});

test("refusals of a key are told apart", () => {
  expect(readReply(bytes(recorded.badKey))).toMatchObject({ rcode: 9, signature: { error: 17 } });
  expect(readReply(bytes(recorded.badSignature))).toMatchObject({ rcode: 9, signature: { error: 16 } });
  expect(readReply(bytes(recorded.notAuthoritative))).toMatchObject({ rcode: 9, signature: null });
});

test("an answer that ends anywhere is refused, and never read beyond", () => {
  const whole = bytes(added.answer);
  for (let length = 0; length < whole.length; length += 1)
    expect(() => check(whole.subarray(0, length)), `${length} bytes`).toThrow(BadMessage);
});

test.each(["", "a..example", ".example", `${"a".repeat(64)}.example`, Array(128).fill("aa").join(".")])(
  "%j is no name",
  (name) => {
    expect(() => nameBytes(name)).toThrow(BadMessage);
  },
);

test("names are written in lower case, whether they end in a dot or not", () => {
  expect(nameBytes("Shop.Example.")).toEqual(nameBytes("shop.example"));
});
