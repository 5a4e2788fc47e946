import fc from "fast-check";
import { expect, test } from "vitest";
import { readJson } from "./json.ts";

const read = (text: string) => readJson(Buffer.from(text));

test("no body is no value", () => {
  expect(readJson(new Uint8Array())).toEqual({ value: undefined });
});

test("any JSON value of harmless text comes back as it was sent", () => {
  const text = fc.string({ unit: "grapheme" }).filter((s) => !s.includes("\u0000") && s !== "__proto__");
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: "small", maxDepth: 5 },
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      text,
      fc.array(tie("tree")),
      fc.dictionary(text, tie("tree"), { noNullPrototype: true }),
    ),
  }));
  fc.assert(
    fc.property(tree, (value) => {
      expect(read(JSON.stringify(value))).toEqual({ value });
    }),
  );
});

test.each([
  { when: "it is not JSON", body: "{" },
  { when: "a value follows the value", body: "{} {}" },
  { when: "a number overflows a double", body: '{"n":1e400}' },
  { when: "it is nested too deep", body: "[".repeat(33) + "]".repeat(33) },
  { when: "it is nested absurdly deep", body: "[".repeat(100_000) + "]".repeat(100_000) },
  { when: "a string holds NUL", body: '{"name":"a\\u0000b"}' },
  { when: "a key holds NUL", body: '{"a\\u0000":1}' },
  { when: "a string holds half a surrogate pair", body: '{"name":"\\ud800"}' },
  { when: "a key is __proto__", body: '{"__proto__":{"admin":true}}' },
  { when: "constructor.prototype is reached", body: '{"constructor":{"prototype":{"admin":true}}}' },
])("a body is refused when $when", ({ body }) => {
  expect(read(body)).toHaveProperty("problem");
});

test("a body that is not UTF-8 is refused", () => {
  expect(readJson(Uint8Array.of(0x22, 0xff, 0xfe, 0x22))).toHaveProperty("problem");
});
