import { expect, test } from "vitest";
import { type FetchProgress, hasAdvanced, progressIn, withObject } from "./progress.ts";

const part = (objectId: string, at: number) => ({ objectId, from: 0, path: "logs/000001/1", at, length: 9 });
const [first, second, third] = [[part("a", 0)], [part("b", 9), part("b", 18)], [part("c", 27)]] as const;
const nothing: FetchProgress = { objects: 0, digest: "" };
const two = [first, second].reduce(withObject, nothing);

test.each<{ when: string; objects: ReturnType<typeof part>[][]; saved: FetchProgress | null; whole: number }>([
  { when: "nothing was written", objects: [[...first]], saved: null, whole: 0 },
  { when: "it is the same manifest", objects: [[...first], [...second], [...third]], saved: two, whole: 2 },
  { when: "all was written", objects: [[...first], [...second]], saved: two, whole: 2 },
  { when: "the order is another", objects: [[...second], [...first], [...third]], saved: two, whole: 0 },
  { when: "less of one is of use", objects: [[...first], [part("b", 9)], [...third]], saved: two, whole: 0 },
  { when: "there are fewer", objects: [[...first]], saved: two, whole: 0 },
])("of a manifest $whole objects are whole when $when", ({ objects, saved, whole }) => {
  expect(progressIn(objects, saved).objects).toBe(whole);
});

test.each<{ when: string; before: FetchProgress | null; after: FetchProgress | null; is: boolean }>([
  { when: "nothing was ever whole", before: null, after: null, is: false },
  { when: "the first object is whole", before: null, after: withObject(nothing, first), is: true },
  { when: "another one is whole", before: withObject(nothing, first), after: two, is: true },
  { when: "it is as it was", before: two, after: two, is: false },
  {
    when: "as many are of another copy",
    before: withObject(nothing, first),
    after: withObject(nothing, third),
    is: true,
  },
])("a turn has advanced: $is, when $when", ({ before, after, is }) => {
  expect(hasAdvanced(before, after)).toBe(is);
});
