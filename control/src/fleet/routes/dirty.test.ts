import { expect, test } from "vitest";
import { keys } from "../cluster/keys.ts";
import { both, clean, dirtyByKeys, dirtyByNotice, isClean, namedMax } from "./dirty.ts";

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const everything = { ...clean, everything: true };

test.each([
  { payload: idOf(1), is: { ...clean, projects: new Set([idOf(1)]) } },
  { payload: "", is: everything },
  { payload: "what a later version may say", is: everything },
])("a notice of '$payload' names a project or asks for everything", ({ payload, is }) => {
  expect(dirtyByNotice(payload)).toEqual(is);
});

test.each([
  {
    what: "placements and observations",
    changes: [{ key: keys.placement("n", idOf(1)) }, { key: keys.observation("n", idOf(2)) }],
    is: { ...clean, tasks: new Set([idOf(1), idOf(2)]) },
  },
  { what: "nobody knows which keys", changes: undefined, is: everything },
  { what: "a key of no task", changes: [{ key: keys.placement("n", "x") }], is: everything },
  {
    what: "more than are looked at one by one",
    changes: Array.from({ length: namedMax + 1 }, (_, n) => ({ key: keys.observation("n", idOf(n)) })),
    is: everything,
  },
])("changed: $what", ({ changes, is }) => {
  expect(dirtyByKeys(changes)).toEqual(is);
});

test("nothing that was told gets lost", () => {
  const one = dirtyByNotice(idOf(1));
  const other = dirtyByKeys([{ key: keys.observation("n", idOf(2)) }]);
  expect(both(one, other)).toEqual({ everything: false, projects: new Set([idOf(1)]), tasks: new Set([idOf(2)]) });
  expect(both(one, everything)).toEqual(everything);
  expect([clean, one, other, everything].map(isClean)).toEqual([true, false, false, false]);
});
