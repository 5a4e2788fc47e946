import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { entryName, firstSequence, parseEntry } from "./names.ts";
import { nextSequence, type Tree, type TreeStep, treeSteps } from "./tree-steps.ts";

const e = (sequence: number, target: string) => entryName(sequence, target);
const tree = (entries: Record<string, string[]>): Tree => new Map(Object.entries(entries));
const wanted = (targets: Record<string, string>) => new Map(Object.entries(targets));

describe("treeSteps", () => {
  test.each<{ when: string; tree: Tree; wanted: Map<string, string>; does: TreeStep[] }>([
    {
      when: "a host is new",
      tree: tree({}),
      wanted: wanted({ a: "p1~x:1" }),
      does: [{ do: "add", host: "a", name: e(5, "p1~x:1") }],
    },
    {
      when: "a host is served as wanted",
      tree: tree({ a: [e(9, "p1~x:1")] }),
      wanted: wanted({ a: "p1~x:1" }),
      does: [],
    },
    {
      when: "a host moves: the new entry first",
      tree: tree({ a: [e(9, "p1~x:1")] }),
      wanted: wanted({ a: "p1~y:1" }),
      does: [
        { do: "add", host: "a", name: e(5, "p1~y:1") },
        { do: "retire", host: "a", names: [e(9, "p1~x:1")] },
      ],
    },
    {
      when: "a host moves back before the old entry is gone",
      tree: tree({ a: [e(8, "p1~y:1"), e(9, "p1~x:1")] }),
      wanted: wanted({ a: "p1~x:1" }),
      does: [
        { do: "add", host: "a", name: e(5, "p1~x:1") },
        { do: "retire", host: "a", names: [e(8, "p1~y:1"), e(9, "p1~x:1")] },
      ],
    },
    {
      when: "an old entry was left behind",
      tree: tree({ a: [e(9, "p1~x:1"), e(8, "p1~y:1")] }),
      wanted: wanted({ a: "p1~y:1" }),
      does: [{ do: "retire", host: "a", names: [e(9, "p1~x:1")] }],
    },
    {
      when: "a host goes",
      tree: tree({ a: [e(9, "x~stopped")] }),
      wanted: wanted({}),
      does: [{ do: "removeHost", host: "a" }],
    },
    {
      when: "a directory is empty",
      tree: tree({ a: [] }),
      wanted: wanted({}),
      does: [{ do: "removeHost", host: "a" }],
    },
    { when: "a host that is not there goes", tree: tree({}), wanted: wanted({}), does: [] },
  ])("when $when", ({ tree: before, wanted: targets, does }) => {
    expect(treeSteps(before, targets, ["a"], 5)).toEqual(does);
  });

  test("leave other hosts alone", () => {
    expect(treeSteps(tree({ b: [e(9, "x~stopped")] }), wanted({}), ["a"], 5)).toEqual([]);
  });

  test("at every moment serve the old or the new target, and in the end only the new one", () => {
    const target = fc.constantFrom("p1~a:1", "p1~b:1", "x~stopped", `s~${"0".repeat(64)}`);
    fc.assert(
      fc.property(fc.array(target, { maxLength: 3 }), target, (olds, next) => {
        const entries = new Set(olds.map((old, n) => e(10 + n, old)));
        const serves = () => parseEntry([...entries].sort()[0] ?? "")?.target;
        const before = serves();
        for (const step of treeSteps(tree({ a: [...entries] }), wanted({ a: next }), ["a"], 5)) {
          if (step.do === "add") entries.add(step.name);
          if (step.do === "retire") for (const name of step.names) entries.delete(name);
          expect([before, next]).toContain(serves());
        }
        expect([...entries].map((name) => parseEntry(name)?.target)).toEqual([next]);
      }),
    );
  });
});

test("the next sequence sorts before everything that is there", () => {
  expect(nextSequence(tree({}))).toBe(firstSequence - 1);
  expect(nextSequence(tree({ a: [e(900, "x~stopped"), e(800, "x~empty")], b: [e(850, "x~empty")], c: [] }))).toBe(799);
});
