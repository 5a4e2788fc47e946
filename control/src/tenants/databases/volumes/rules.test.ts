import { expect, test } from "vitest";
import { type AskedVolume, deleteRefusal, keepRefusal, unknownRefusal } from "./rules.ts";

const dropped: AskedVolume = {
  ...{ of: "database", id: "5a1d0c37-0000-4000-8000-00000000000a", generation: 1, isOver: true, isDue: false },
  ...{ isCurrent: false, isChanging: false, isUsed: false, isGone: false, isPast: false },
};
const confirmed = { confirmed: true };

test.each<{ which: string; has: Partial<AskedVolume>; keep: RegExp | null; remove: RegExp | null }>([
  { which: "of a database that was dropped", has: {}, keep: null, remove: null },
  { which: "of a copy that has ended", has: { of: "copy" }, keep: null, remove: null },
  { which: "whose time is over", has: { isPast: true }, keep: /time is over/, remove: null },
  { which: "a database has", has: { isOver: false, isCurrent: true }, keep: /has its data/, remove: /has its data/ },
  {
    which: "a database has that comes back from a copy",
    ...{ has: { isCurrent: true, isChanging: true }, keep: /has its data/, remove: /has its data/ },
  },
  {
    which: "of a copy that goes on",
    ...{ has: { of: "copy", isOver: false, isUsed: true }, keep: /goes on/, remove: /goes on/ },
  },
  { which: "a change may need", has: { isChanging: true }, keep: null, remove: /under way/ },
  { which: "a server uses", has: { isUsed: true }, keep: null, remove: /uses it/ },
])("a volume $which", ({ has, keep, remove }) => {
  const volume = { ...dropped, ...has };
  const says = (pattern: RegExp | null) =>
    pattern === null ? null : expect.objectContaining({ message: expect.stringMatching(pattern) });
  expect(keepRefusal(volume)).toEqual(says(keep));
  expect(deleteRefusal(volume, confirmed)).toEqual(says(remove));
});

test("nothing is removed before somebody says that they know what is lost", () => {
  expect(deleteRefusal(dropped, { confirmed: false })?.code).toBe("DESTRUCTIVE_CONFIRMATION_REQUIRED");
});

test("what is gone is not found", () => {
  const gone = { ...dropped, isGone: true };
  expect([keepRefusal(gone), deleteRefusal(gone, confirmed)]).toEqual([{ code: "NOT_FOUND" }, { code: "NOT_FOUND" }]);
});

test("what nobody knows is told apart from what is not there", () => {
  expect([unknownRefusal(true).code, unknownRefusal(false).code]).toEqual(["CONFLICT", "NOT_FOUND"]);
});
