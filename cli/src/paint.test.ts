import { expect, test } from "vitest";
import { wantsColour } from "./paint.ts";

test.each([
  ["a terminal", {}, { isTerminal: true, noColor: false }, true],
  ["a pipe", {}, { isTerminal: false, noColor: false }, false],
  ["--no-color", { FORCE_COLOR: "1" }, { isTerminal: true, noColor: true }, false],
  ["NO_COLOR", { NO_COLOR: "1", FORCE_COLOR: "1" }, { isTerminal: true, noColor: false }, false],
  ["an empty NO_COLOR", { NO_COLOR: "" }, { isTerminal: true, noColor: false }, true],
  ["FORCE_COLOR in a pipe", { FORCE_COLOR: "1" }, { isTerminal: false, noColor: false }, true],
  ["FORCE_COLOR=0 in a pipe", { FORCE_COLOR: "0" }, { isTerminal: false, noColor: false }, false],
  ["a dumb terminal", { TERM: "dumb" }, { isTerminal: true, noColor: false }, false],
])("with %s", (_, env, options, expected) => {
  expect(wantsColour(env, options)).toBe(expected);
});
