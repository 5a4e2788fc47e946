import { expect, test } from "vitest";
import { createReplay } from "./replay.ts";

const kept = (name: string) => ({ channel: name, frame: new TextEncoder().encode(name) });
function replayOf(names: readonly string[], bufferSize: number) {
  const replay = createReplay("ab", bufferSize);
  for (const name of names) replay.keep(kept(name));
  return replay;
}

test.each([
  { when: "some were missed", last: "ab:2", comes: ["c", "d"] },
  { when: "none was", last: "ab:4", comes: [] },
  { when: "all were", last: "ab:0", comes: ["a", "b", "c", "d"] },
  { when: "the id is of another instance", last: "cd:2", comes: [] },
  { when: "the number is not yet given", last: "ab:900", comes: [] },
  { when: "the id is none", last: "2", comes: [] },
  { when: "the id has something behind it", last: "ab:2x", comes: [] },
  { when: "the id has a sign", last: "ab:-3", comes: [] },
  { when: "the number is larger than any", last: `ab:${"9".repeat(400)}`, comes: [] },
  { when: "there is no id", last: null, comes: [] },
])("when $when", ({ last, comes }) => {
  expect(
    replayOf(["a", "b", "c", "d"], 10)
      .after(last)
      .map(({ channel }) => channel),
  ).toEqual(comes);
});

test("of more than the buffer holds only the newest are left, in order", () => {
  const replay = replayOf(["a", "b", "c", "d", "e"], 3);
  expect(replay.after("ab:1").map(({ channel }) => channel)).toEqual(["c", "d", "e"]);
  expect(replay.after("ab:4").map(({ channel }) => channel)).toEqual(["e"]);
});

test("numbers begin with 1", () => {
  const replay = createReplay("ab", 1);
  expect(replay.nextId()).toBe("ab:1");
  replay.keep(kept("a"));
  expect(replay.nextId()).toBe("ab:2");
});
