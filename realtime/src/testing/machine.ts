import { every } from "@svc/runtime/clock";
import { createManualClock, type ManualClock } from "@svc/runtime/testing/manual-clock";
import { type Machine, randomHex } from "../machine.ts";

/** A machine whose time stands still until a test moves it. */
export function createManualMachine(): { machine: Machine; clock: ManualClock } {
  const clock = createManualClock();
  const called = (timer: Disposable) => () => timer[Symbol.dispose]();
  const machine: Machine = {
    steadyMs: () => clock.steadyMs(),
    after: (ms, run) => called(clock.after(ms, run)),
    every: (ms, run) => called(every(clock, ms, run)),
    soon: (run) => void setImmediate(run),
    randomHex,
  };
  return { machine, clock };
}
