import { expect, test } from "vitest";
import { keys } from "../cluster/keys.ts";
import { both, clean, dirtyByKeys, dirtyByNodes, dirtyByNotice, isClean, namedMax } from "./dirty.ts";

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

const placed: Record<string, readonly string[]> = { one: [idOf(1), idOf(2)], other: [idOf(3)], odd: ["x"] };

test.each([
  {
    what: "two nodes",
    changes: ["one", "other", "one"].map((id) => ({ key: keys.nodeSession(id) })),
    is: { ...clean, tasks: new Set([idOf(1), idOf(2), idOf(3)]) },
  },
  { what: "a node with nothing on it", changes: [{ key: keys.nodeSession("empty") }], is: clean },
  {
    what: "a replica of control",
    changes: [{ key: keys.nodeSession("one") }, { key: keys.server("s") }],
    is: everything,
  },
  { what: "a node with what is no task", changes: [{ key: keys.nodeSession("odd") }], is: everything },
  { what: "nobody knows which nodes", changes: undefined, is: everything },
])("changed: $what", ({ changes, is }) => {
  expect(dirtyByNodes(changes, (id) => placed[id] ?? [])).toEqual(is);
});

test("nothing that was told gets lost", () => {
  const one = dirtyByNotice(idOf(1));
  const other = dirtyByKeys([{ key: keys.observation("n", idOf(2)) }]);
  expect(both(one, other)).toEqual({ everything: false, projects: new Set([idOf(1)]), tasks: new Set([idOf(2)]) });
  expect(both(one, everything)).toEqual(everything);
  expect([clean, one, other, everything].map(isClean)).toEqual([true, false, false, false]);
});
