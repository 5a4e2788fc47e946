import { expect, test } from "vitest";
import { type Gate, gatedCommand, judge, type Situation, type Verdict } from "./gate.ts";

type Found = Situation["container"];
const all: readonly Found[] = ["absent", "created", "running", "exited", "other", undefined];

/** What follows, in the order of `all`. */
const table: { gate: Gate; isSameBoot: boolean; follows: readonly Verdict[] }[] = [
  { gate: "none", isSameBoot: true, follows: ["unknown", "unknown", "runs", "runs", "wait", "wait"] },
  { gate: "none", isSameBoot: false, follows: ["unknown", "unknown", "runs", "runs", "wait", "wait"] },
  { gate: "open", isSameBoot: true, follows: ["shut", "shut", "shut", "shut", "shut", "shut"] },
  { gate: "open", isSameBoot: false, follows: ["unknown", "unknown", "runs", "runs", "wait", "wait"] },
  { gate: "claimed", isSameBoot: true, follows: ["unknown", "wait", "runs", "runs", "wait", "runs"] },
  { gate: "claimed", isSameBoot: false, follows: ["unknown", "wait", "runs", "runs", "wait", "runs"] },
  { gate: "shut", isSameBoot: true, follows: ["never", "never", "never", "never", "never", "never"] },
  { gate: "shut", isSameBoot: false, follows: ["never", "never", "never", "never", "never", "never"] },
  { gate: "gone", isSameBoot: true, follows: ["unknown", "unknown", "runs", "runs", "wait", "wait"] },
  { gate: "gone", isSameBoot: false, follows: ["unknown", "unknown", "runs", "runs", "wait", "wait"] },
];
const situations = table.flatMap(({ gate, isSameBoot, follows }) =>
  all.map((container, at) => ({ gate, isSameBoot, container, follows: follows[at] })),
);

test.each(situations)(
  "gate $gate, container $container, same boot $isSameBoot: $follows",
  ({ gate, container, isSameBoot, follows }) => {
    expect(judge({ gate, container, isSameBoot })).toBe(follows);
  },
);

test("the command is an argument and never part of the script", () => {
  const [before, after] = [gatedCommand("echo one"), gatedCommand(`"; rm -rf / $(x)`)];
  expect(after.slice(0, -1)).toEqual(before.slice(0, -1));
  expect(after.at(-1)).toBe(`"; rm -rf / $(x)`);
});
