import { simulate } from "../simulate.ts";
import { invariants } from "../world/checks/invariants.ts";
import { type MutantName, mutantNames, whatBreaks } from "./mutants.ts";

export interface Kill {
  seed: number;
  /** How many fresh seeds it took, this one included. */
  seeds: number;
  events: number;
  invariant: number;
}

/** Runs a mutant with fresh seeds until an invariant does not hold; null: with none of `cap` seeds, or not in time. */
export async function hunt(
  mutant: MutantName,
  firstSeed: number,
  cap: number,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<Kill | null> {
  let events = 0;
  for (let seeds = 1; seeds <= cap && performance.now() < untilMs; seeds += 1) {
    const seed = firstSeed + seeds - 1;
    const done = await simulate({ seed, mutant, keep: null });
    events += done.events;
    if (done.violation === null) continue;
    // What the world without the mutant violates as well says nothing about the mutant.
    if ((await simulate({ seed, mutant: null, keep: null })).violation === null)
      return { seed, seeds, events, invariant: done.violation.invariant };
  }
  return null;
}

const median = (of: readonly number[]): number =>
  [...of].sort((a, b) => a - b)[Math.floor((of.length - 1) / 2)] ?? Number.NaN;

/** The table of all mutants, as Markdown; the exit code: 1 when one of them survived. */
export async function runMutants({
  firstSeed,
  repetitions,
  cap,
  say,
}: {
  firstSeed: number;
  repetitions: number;
  cap: number;
  say: (line: string) => void;
}): Promise<number> {
  say(`first seed: ${firstSeed}, ${repetitions} repetitions, at most ${cap} seeds each`);
  say("| mutant | what it breaks | caught by | median seeds | median events |");
  say("|---|---|---|---|---|");
  let survivors = 0;
  for (const [index, mutant] of mutantNames.entries()) {
    const kills: Kill[] = [];
    for (let repetition = 0; repetition < repetitions; repetition += 1) {
      const kill = await hunt(mutant, firstSeed + (index * repetitions + repetition) * 1_000_003, cap);
      if (kill !== null) kills.push(kill);
    }
    if (kills.length < repetitions) survivors += 1;
    const by = [...new Set(kills.map(({ invariant }) => invariant))].sort((a, b) => a - b);
    const caught = by
      .map((number) => `${number} (${kills.filter(({ invariant }) => invariant === number).length})`)
      .join(", ");
    const seeds = median(kills.map((kill) => kill.seeds));
    const events = median(kills.map((kill) => kill.events));
    const missed = kills.length < repetitions ? ` **survived ${repetitions - kills.length} of ${repetitions}**` : "";
    say(`| ${mutant} | ${whatBreaks(mutant)} | ${caught}${missed} | ${seeds} | ${events} |`);
  }
  say("");
  for (const [number, text] of Object.entries(invariants)) say(`${number}. ${text}`);
  return survivors === 0 ? 0 : 1;
}
