import { expect, test } from "vitest";
import { type FetchProgress, progressIn, withObject } from "./progress.ts";

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
