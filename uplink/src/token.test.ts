import { expect, test } from "vitest";
import { parseToken } from "./token.ts";

const ca = "ab".repeat(32);
const secret = "01".repeat(16);

test("a token yields its public parts", () => {
  expect(parseToken(`svcn1.c1.${ca}.t1.${secret}`)).toEqual({ clusterId: "c1", caSha256: ca, tokenId: "t1" });
});

test.each([
  { when: "empty", text: "" },
  { when: "of another version", text: `svcn2.c1.${ca}.t1.${secret}` },
  { when: "with a short digest", text: `svcn1.c1.abcd.t1.${secret}` },
  { when: "with a short secret", text: `svcn1.c1.${ca}.t1.0101` },
  { when: "with upper-case hex", text: `svcn1.c1.${ca.toUpperCase()}.t1.${secret}` },
  { when: "followed by more", text: `svcn1.c1.${ca}.t1.${secret}\n.x` },
])("a token $when is refused", ({ text }) => {
  expect(parseToken(text)).toBeNull();
});
