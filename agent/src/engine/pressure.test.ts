import { expect, test } from "vitest";
import { buildOomScore, cpuShares, oomScore, reservedCpu } from "./pressure.ts";

test.each([
  { when: "little is set aside", cpuMillicores: 25, shares: 250 },
  { when: "a whole processor is", cpuMillicores: 1_000, shares: 10_000 },
  { when: "nothing was said", cpuMillicores: 0, shares: 2 },
  { when: "more is than the kernel counts", cpuMillicores: 1_024_000, shares: 262_140 },
])("when $when, processors are shared by $shares", ({ cpuMillicores, shares }) => {
  expect(cpuShares({ cpuMillicores })).toBe(shares);
  expect(cpuShares({ cpuMillicores: reservedCpu(shares) })).toBe(shares);
});

const machineMb = 4_000;
/** As the kernel counts: thousandths of the machine that are held, and the score. */
const badness = (heldMb: number, reservedMb: number) =>
  Math.round((1000 * heldMb) / machineMb) + oomScore({ memoryMb: reservedMb }, machineMb);

test("who holds most beyond what is set aside for it goes first, and builds before all", () => {
  const greedy = badness(500, 64);
  expect(greedy).toBeGreaterThan(badness(60, 64));
  expect(greedy).toBeGreaterThan(badness(900, 1_024));
  // A program of the machine, at 0.
  expect(badness(20, 1_024)).toBeGreaterThan((1000 * 700) / machineMb);
  expect(buildOomScore + (1000 * 300) / machineMb).toBeGreaterThan(badness(200, 64));
});

test.each([
  { memoryMb: 0, score: 999 },
  { memoryMb: 64, score: 984 },
  { memoryMb: 4_000, score: 2 },
  { memoryMb: 9_000, score: 2 },
])("with $memoryMb of 4000 MiB set aside the score is $score", ({ memoryMb, score }) => {
  expect(oomScore({ memoryMb }, machineMb)).toBe(score);
});
