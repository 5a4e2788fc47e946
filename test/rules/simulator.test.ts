import { expect, test } from "vitest";
import { type SourceFile, sourcesBelow, sourcesOf } from "./sources.ts";

const programs = ["agent", "control", "router", "runtime", "uplink"];
/** Shorter names are words that anybody uses. */
const nameLengthMin = 11;

const declared = /^(?:export )?(?:async )?function\*? (\w+)|^(?:export )?const (\w+) = (?:async )?\(/gm;
const functionsOf = ({ text }: SourceFile): string[] =>
  [...text.matchAll(declared)]
    .map(([, one, other]) => one ?? other ?? "")
    .filter(({ length }) => length >= nameLengthMin);

const isOfTests = ({ path }: SourceFile): boolean => /\.test\.ts$|\/testing(\/|\.ts$)/.test(path);
// The exhaustive searches are models, and call the decisions that they search.
const simulator = sourcesBelow("test/sim", /^(?!exhaustive\/).*\.ts$/).filter((file) => !isOfTests(file));

test("the simulator copies nothing of the product: what it runs, it runs from there", () => {
  const product = new Set(
    programs
      .flatMap(sourcesOf)
      .filter((file) => !isOfTests(file))
      .flatMap(functionsOf),
  );
  expect(simulator.length).toBeGreaterThan(20);
  const copies = simulator.flatMap((file) => [
    ...functionsOf(file)
      .filter((name) => product.has(name))
      .map((name) => `${file.path}: ${name}`),
    ...(/\bmirrors\b/i.test(file.text) ? [`${file.path}: says what it mirrors`] : []),
  ]);
  expect(copies).toEqual([]);
});
