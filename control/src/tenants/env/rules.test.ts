import { describe, expect, test } from "vitest";
import { type EnvNames, layered, quotaProblem, withLayer } from "./rules.ts";

const names = (base: string[], overlays: Partial<EnvNames["overlays"]> = {}): EnvNames => ({
  base,
  overlays: { production: [], preview: [], dev: [], ...overlays },
});

describe("a plan of three variables", () => {
  test.each<{ when: string; is: EnvNames; tells: RegExp | null }>([
    { when: "nothing is set", is: names([]), tells: null },
    { when: "the base has all of them", is: names(["A", "B", "C"]), tells: null },
    {
      when: "the base has more",
      is: names(["A", "B", "C", "D"]),
      tells: /^The plan allows 3 variables per project\.$/,
    },
    { when: "an overlay changes what is there", is: names(["A", "B", "C"], { dev: ["A", "C"] }), tells: null },
    { when: "an overlay adds one too many", is: names(["A", "B", "C"], { preview: ["D"] }), tells: /preview.*4/ },
    { when: "each channel has its own", is: names(["A"], { production: ["B", "C"], dev: ["D", "E"] }), tells: null },
    { when: "an overlay alone is over", is: names([], { dev: ["A", "B", "C", "D"] }), tells: /dev.*4/ },
  ])("$when", ({ is, tells }) => {
    const problem = quotaProblem(is, 3);
    if (tells === null) expect(problem).toBeNull();
    else expect(problem).toMatch(tells);
  });
});

test("a plan of one variable is told in the singular", () => {
  expect(quotaProblem(names(["A", "B"]), 1)).toBe("The plan allows 1 variable per project.");
});

test("replacing one layer leaves the others", () => {
  const before = names(["A"], { dev: ["B"] });
  expect(withLayer(before, null, ["C"])).toEqual(names(["C"], { dev: ["B"] }));
  expect(withLayer(before, "preview", ["C"])).toEqual(names(["A"], { dev: ["B"], preview: ["C"] }));
});

test("files give way to the project, and the project to the channel", () => {
  const result = layered(
    { A: "file", B: "file", C: "file" },
    { B: "base", C: "base", D: "base" },
    { C: "overlay", E: "" },
  );
  expect(result).toEqual({ A: "file", B: "base", C: "overlay", D: "base", E: "" });
});
