import { expect, test } from "vitest";
import { isVolumeName, type KnownVolume, removedMax, volumeName, volumeNews, volumesToRemove } from "./rules.ts";

const id = "5a1d0c37-0000-4000-8000-00000000000a";
const due = { isOver: true, isDue: true, isCurrent: false, isChanging: false, isUsed: false, isGone: false };
const ofBranch = (overrides: Partial<KnownVolume> = {}): KnownVolume => ({
  ...{ of: "database", id, generation: 1, ...due },
  ...overrides,
});
const ofCopy = (overrides: Partial<KnownVolume> = {}): KnownVolume => ofBranch({ of: "copy", ...overrides });
const [branchName, copyName] = ["svc-db-5a1d0c3700004000", "svc-dbcopy-5a1d0c3700004000"];

test.each<{ when: string; has: Partial<KnownVolume>; goes: boolean }>([
  { when: "has had its time", has: {}, goes: true },
  { when: "counts", has: { isOver: false, isDue: false, isCurrent: true }, goes: false },
  { when: "is kept for a while", has: { isDue: false }, goes: false },
  { when: "a branch has, although it is said to be over", has: { isCurrent: true }, goes: false },
  { when: "a change may go back to", has: { isChanging: true }, goes: false },
  { when: "a server has", has: { isUsed: true }, goes: false },
  { when: "is gone", has: { isGone: true }, goes: false },
  { when: "is not over, although its time is", has: { isOver: false }, goes: false },
])("a volume that $when goes: $goes", ({ has, goes }) => {
  expect(volumesToRemove([ofBranch(has)])).toEqual(goes ? [branchName] : []);
  expect(volumesToRemove([ofCopy(has)])).toEqual(goes ? [copyName] : []);
});

/** Every volume that there can be, as far as it is decided about. */
const all: KnownVolume[] = (["database", "copy"] as const).flatMap((of) =>
  Array.from({ length: 64 }, (_, bits) => {
    const has = (bit: number) => (bits & bit) !== 0;
    const [isOver, isDue, isCurrent] = [has(1), has(2), has(4)];
    const [isChanging, isUsed, isGone] = [has(8), has(16), has(32)];
    return ofBranch({ of, isOver, isDue, isCurrent, isChanging, isUsed, isGone });
  }),
);

test("nothing is removed that is kept for any reason, whatever else is said of it", () => {
  for (const volume of all) {
    if (volumesToRemove([volume]).length === 0) continue;
    expect(volume).toMatchObject({ isOver: true, isDue: true, isCurrent: false, isChanging: false, isUsed: false });
  }
  expect(all.filter((volume) => volumesToRemove([volume]).length > 0)).toHaveLength(2);
});

test("a name that anything kept has, too, is not removed", () => {
  // Names have the first digits of an id alone.
  const namesake = "5a1d0c37-0000-4000-9999-000000000000";
  for (const volume of all) {
    const isKept = volumesToRemove([{ ...volume, isGone: false }]).length === 0;
    const others = [{ ...volume, id: namesake }, ofBranch({ of: volume.of })];
    expect(volumesToRemove(others)).toEqual(isKept ? [] : [volumeName(volume)]);
  }
});

test("another generation of the same branch is another volume", () => {
  const current = ofBranch({ generation: 2, isOver: false, isDue: false, isCurrent: true });
  expect(volumesToRemove([current, ofBranch()])).toEqual([branchName]);
  expect(volumesToRemove([ofBranch({ generation: 3 }), current])).toEqual([`${branchName}-3`]);
});

test("what goes is told in one order, and in bounds", () => {
  const many = Array.from({ length: removedMax + 5 }, (_, at) => ofBranch({ generation: at + 2 }));
  const names = volumesToRemove(many);
  expect(names).toHaveLength(removedMax);
  expect(volumesToRemove(many.toReversed())).toEqual(names);
});

test.each<{ when: string; has: Partial<KnownVolume>; names: string[]; news: object }>([
  { when: "is there", has: {}, names: [branchName], news: {} },
  { when: "went", has: {}, names: [], news: { gone: [{ id }] } },
  { when: "is known to be gone", has: { isGone: true }, names: [], news: {} },
  { when: "is there again", has: { isGone: true }, names: [branchName], news: { back: [{ id }] } },
  { when: "is missing before its time", has: { isDue: false }, names: [], news: {} },
  { when: "counts, and is missing", has: { isOver: false, isDue: false }, names: [], news: {} },
  { when: "is there besides others", has: {}, names: [copyName, branchName], news: { unknown: [copyName] } },
])("a node tells of a volume that $when", ({ has, names, news }) => {
  expect(volumeNews(names, [ofBranch(has)])).toMatchObject({ gone: [], back: [], unknown: [], ...news });
});

test.each([
  [branchName, true],
  [`${branchName}-2`, true],
  [copyName, true],
  [`${copyName}-2`, false],
  ["svc-db-5a1d0c370000400", false],
  ["postgres", false],
  ["", false],
])("%j is the name of a volume: %j", (name, is) => {
  expect(isVolumeName(name)).toBe(is);
});
