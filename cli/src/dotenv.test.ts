import { parse } from "dotenv";
import fc from "fast-check";
import { expect, test } from "vitest";
import { dotenvText, dotenvValue } from "./dotenv.ts";

const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,12}$/).filter((each) => each !== "__proto__");
const tricky = fc
  .array(
    fc.constantFrom("'", '"', "`", "\\", "\n", "\r", "\\n", "#", "$", "=", " ", "a", "export ", "{X}", "€", "\t"),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

test("what is written is read back as the same text by the parser that everybody uses", () => {
  fc.assert(
    fc.property(fc.dictionary(name, fc.oneof(tricky, fc.string())), (vars) => {
      const written = dotenvText(vars);
      if ("text" in written) expect({ ...parse(written.text) }).toEqual({ ...vars });
      else for (const each of written.unfit) expect(dotenvValue(vars[each] ?? "")).toBeNull();
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ["plain", "plain"],
  ["", ""],
  ["with space", "'with space'"],
  ["it's", "`it's`"],
  ["line\nbreak", "'line\nbreak'"],
  ["cr\r\n", '"cr\\r\\n"'],
  ["$HOME #x", "'$HOME #x'"],
])("%j is written as %s", (value, text) => {
  expect(dotenvValue(value)).toBe(text);
});

test("a value that the format cannot hold is named, not mangled", () => {
  expect(dotenvText({ GOOD: "1", BAD: "'`\"" })).toEqual({ unfit: ["BAD"] });
});

test("names are sorted, so that the same variables make the same file", () => {
  expect(dotenvText({ B: "2", A: "1" })).toEqual({ text: "A=1\nB=2\n" });
});
