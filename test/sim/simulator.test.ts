import { describe, expect, test } from "vitest";
import { firstSeedOf, mutantNames } from "./mutants/mutants.ts";
import { hunt } from "./mutants/table.ts";
import { shrink } from "./shrink.ts";
import { report, simulate } from "./simulate.ts";

/** How long seeds are run; `SVC_SIM_SECONDS` says otherwise. */
const secondsDefault = 150;
const seconds = Number(process.env["SVC_SIM_SECONDS"] ?? secondsDefault);
/** Not more on a fast machine: a change is judged by seeds that it was tried with. */
const seedsMax = 1_000;
const huntMs = 300_000;
/** A mutant that takes more keeps everybody waiting, and a seed that finds it is worth writing down. */
const seedsQuick = 10;

describe("the simulator", () => {
  test("does the same for the same seed", async () => {
    for (const seed of [1, 2, 3]) {
      const one = await simulate({ seed, mutant: null, keep: null });
      const other = await simulate({ seed, mutant: null, keep: null });
      expect(other.hash).toBe(one.hash);
      expect(other.events).toBe(one.events);
    }
    const four = await simulate({ seed: 4, mutant: null, keep: null });
    const five = await simulate({ seed: 5, mutant: null, keep: null });
    expect(four.hash).not.toBe(five.hash);
  });

  test("finds a schedule that is shorter and still fails", async () => {
    const kill = await hunt("M8", 1, 50);
    if (kill === null) throw new Error("no seed to shrink");
    const done = await simulate({ seed: kill.seed, mutant: "M8", keep: null });
    const shrunk = await shrink(done);
    expect(shrunk.keep.length).toBeLessThan(done.plan.deeds.length);
    const again = await simulate({ seed: kill.seed, mutant: "M8", keep: shrunk.keep });
    expect(again.violation?.invariant).toBe(done.violation?.invariant);
  });
});

describe("the cluster under faults", () => {
  // From the first seed on each time, so that a change is judged by what it changes: `npm run sim` tries fresh ones.
  test(`keeps every invariant for ${seconds} s of seeds, ${seedsMax} at most`, async () => {
    const untilMs = performance.now() + seconds * 1_000;
    for (let seed = 1; seed <= seedsMax && performance.now() < untilMs; seed += 1) {
      const done = await simulate({ seed, mutant: null, keep: null });
      expect(done.violation, report(done)).toBeNull();
    }
  });

  // The same seeds each time: with fresh ones the rarest takes a minute or ten, and `npm run sim -- --mutants` measures that.
  test.each(mutantNames)("would be caught with the bug %s", async (mutant) => {
    const kill = await hunt(mutant, firstSeedOf(mutant), 5_000, performance.now() + huntMs);
    if (kill !== null && kill.seeds > seedsQuick)
      console.error(`  ${mutant} took ${kill.seeds} seeds: its \`foundBySeed\` may be ${kill.seed} now`);
    expect(kill).not.toBeNull();
  });
});
