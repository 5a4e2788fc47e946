import { parseArgs } from "node:util";
import { isMutantName, mutantNames } from "./mutants/mutants.ts";
import { runMutants } from "./mutants/table.ts";
import { shrink } from "./shrink.ts";
import { report, type Simulated, simulate } from "./simulate.ts";

/**
 * `npm run sim -- [--seed N] [--trace] [--seeds N] [--minutes N] [--hours N] [--mutant M7] [--mutants] [--shrink]`
 *
 * One seed with `--seed`; else fresh ones until `--seeds`, `--minutes` or `--hours` are over (100 seeds unless given).
 * `--keep 3,7,9` does only those of the seed's deeds, as a shrunk schedule says.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    minutes: { type: "string" },
    hours: { type: "string" },
    mutant: { type: "string" },
    mutants: { type: "boolean", default: false },
    repetitions: { type: "string", default: "5" },
    cap: { type: "string", default: "5000" },
    keep: { type: "string" },
    trace: { type: "boolean", default: false },
    shrink: { type: "boolean", default: false },
  },
});

const number = (text: string | undefined, name: string): number | null => {
  if (text === undefined) return null;
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new Error(`--${name} ${text}: a number from 0 on, please`);
  return value;
};

const seed = number(values.seed, "seed");
const mutant = values.mutant ?? null;
if (mutant !== null && !isMutantName(mutant))
  throw new Error(`--mutant ${mutant}: one of ${mutantNames.join(", ")}, please`);
const first = seed ?? Math.floor(Math.random() * 1_000_000_000);

if (values.mutants) {
  const repetitions = number(values.repetitions, "repetitions") ?? 5;
  process.exitCode = await runMutants({
    firstSeed: first,
    repetitions,
    cap: number(values.cap, "cap") ?? 5_000,
    say: console.log,
  });
} else if (seed !== null && values.seeds === undefined && values.minutes === undefined && values.hours === undefined) {
  const keep = values.keep === undefined ? null : values.keep.split(",").filter(Boolean).map(Number);
  const done = await simulate({ seed, mutant, keep, ...(values.trace && { trace: console.log }) });
  await tell(done);
} else {
  const hours = number(values.hours, "hours");
  const minutes = number(values.minutes, "minutes");
  const untilMs =
    hours === null && minutes === null ? null : performance.now() + (hours ?? 0) * 3_600_000 + (minutes ?? 0) * 60_000;
  const most = number(values.seeds, "seeds") ?? (untilMs === null ? 100 : Number.POSITIVE_INFINITY);
  console.log(`first seed: ${first}`);
  const startedAtMs = performance.now();
  let count = 0;
  let events = 0;
  let virtualMs = 0;
  for (; count < most && (untilMs === null || performance.now() < untilMs); count += 1) {
    const done = await simulate({ seed: first + count, mutant, keep: null });
    events += done.events;
    virtualMs += done.virtualMs;
    if (done.violation !== null) {
      await tell(done);
      if (!values.shrink) console.log("the schedule is shrunk with --shrink");
      break;
    }
  }
  const seconds = (performance.now() - startedAtMs) / 1_000;
  console.log(
    `${count} seeds without a violation in ${seconds.toFixed(1)} s: ${Math.round(events / seconds)} events/s, ${Math.round(virtualMs / 1_000 / seconds)} times real time`,
  );
}

async function tell(done: Simulated): Promise<void> {
  console.log(report(done));
  if (done.violation === null) return;
  process.exitCode = 1;
  if (!values.shrink) return;
  const shrunk = await shrink(done);
  console.log(`shrunk to ${shrunk.keep.length} of ${shrunk.of} deeds in ${shrunk.tries} runs:`);
  for (const line of shrunk.lines) console.log(`  ${line}`);
  const flags = mutant === null ? "" : ` --mutant ${mutant}`;
  console.log(`replay: npm run sim -- --seed ${done.seed}${flags} --keep ${shrunk.keep.join(",")} --trace`);
}
