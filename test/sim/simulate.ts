import { setFlagsFromString } from "node:v8";
import { anySignal } from "./kernel/signals.ts";
import { soundFooting } from "./machines/footing.ts";
import { patch } from "./mutants/door.ts";
import { type MutantName, mutated } from "./mutants/mutants.ts";
import { invariants, Violation } from "./world/checks/invariants.ts";
import { type Plan, planOf } from "./world/schedule.ts";
import { watchTold } from "./world/told.ts";
import { World } from "./world/world.ts";

export interface SimulateOptions {
  seed: number;
  /** The test double in place of a real core; null: all are real. */
  mutant: MutantName | null;
  /** Which of the seed's deeds are done, by index; null: all. */
  keep: readonly number[] | null;
  trace?: (line: string) => void;
}

// What a few collections of garbage find not to have run since is compiled anew otherwise, and of garbage there is much.
setFlagsFromString("--no-flush-bytecode");
type Mutated = ReturnType<typeof mutated>;
const unmutated: Mutated = { footing: soundFooting, patches: {} };

export interface Simulated {
  seed: number;
  mutant: MutantName | null;
  plan: Plan;
  violation: Violation | null;
  events: number;
  virtualMs: number;
  /** The same for the same seed and program. */
  hash: number;
}

/** One run of the world of a seed, to its end or to the first invariant that does not hold. */
export async function simulate({ seed, mutant, keep, trace }: SimulateOptions): Promise<Simulated> {
  const whole = planOf(seed);
  const deeds = keep === null ? whole.deeds : whole.deeds.filter((_, index) => keep.includes(index));
  const plan: Plan = { ...whole, deeds };
  const { footing, patches }: Mutated = mutant === null ? unmutated : mutated(mutant);
  const world = new World(seed, plan, footing);
  if (trace) world.kernel.trace = trace;
  let violation: Violation | null = null;
  process.on("unhandledRejection", world.kernel.onUnhandled);
  const nodeAny = AbortSignal.any;
  AbortSignal.any = anySignal;
  const { stackTraceLimit } = Error;
  // Most errors are of the world's faults, and where they are made costs more than they do: whoever reads a trace is told.
  if (trace === undefined) Error.stackTraceLimit = 0;
  patch({ createPublisher: watchTold(world), ...patches });
  try {
    await world.run();
  } catch (error) {
    if (!(error instanceof Violation)) {
      throw new Error(`seed ${seed} broke the simulator at ${(world.kernel.nowMs / 1_000).toFixed(3)} s`, {
        cause: error,
      });
    }
    violation = error;
  } finally {
    process.off("unhandledRejection", world.kernel.onUnhandled);
    AbortSignal.any = nodeAny;
    Error.stackTraceLimit = stackTraceLimit;
    patch({});
  }
  const { events, nowMs, hash } = world.kernel;
  return { seed, mutant, plan: whole, violation, events, virtualMs: nowMs, hash };
}

/** For people. */
export function report({ seed, mutant, violation, events, virtualMs, hash }: Simulated): string {
  const about = `seed ${seed}${mutant === null ? "" : ` with ${mutant}`}`;
  const when = `${events} events, ${(virtualMs / 1_000).toFixed(1)} s, trace ${hash.toString(16)}`;
  if (violation === null) return `${about}: every invariant held (${when})`;
  const what = invariants[violation.invariant] ?? "";
  return `${about}: VIOLATION of ${violation.message}\n  which says: ${what}\n  after ${when}`;
}
