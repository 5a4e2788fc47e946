import { expect, test } from "vitest";
import { createGrep } from "./grep.ts";

test("lines that fit are kept, in order", () => {
  expect(createGrep("err(or)?|warn")(["an error", "fine", "warning", "Error"])).toEqual(["an error", "warning"]);
  expect(createGrep("^$")(["", "x"])).toEqual([""]);
  expect(createGrep("x")([])).toEqual([]);
});

test.each(["(", "[a", "a{2,1}", "*"])("%s is no expression", (source) => {
  expect(() => createGrep(source)).toThrow(expect.objectContaining({ code: "CLI_INVALID_USAGE" }));
});

test("an expression that would take for ever is ended within its second", () => {
  const grep = createGrep("(a+)+$");
  const startedAt = performance.now();
  expect(() => grep([`${"a".repeat(60)}!`])).toThrow(expect.objectContaining({ code: "CLI_INVALID_USAGE" }));
  expect(performance.now() - startedAt).toBeLessThan(5000);
});

test("a line is looked at only as far as 16 Ki characters", () => {
  expect(createGrep("x$")([`${"a".repeat(20_000)}x`])).toEqual([]);
  expect(createGrep("a$")([`${"a".repeat(20_000)}x`])).toHaveLength(1);
});
