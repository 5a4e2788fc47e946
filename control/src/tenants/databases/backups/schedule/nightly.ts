import type { Clock } from "@svc/runtime/clock";
import { type LoopOptions, runLoop } from "@svc/runtime/loop";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../../../log.ts";
import type { Leadership } from "../../../../stores/etcd/index.ts";
import type { NightRows } from "./rows.ts";

export interface NightlyDeps {
  rows: NightRows;
  random: Random;
  log: Log;
}

/** How soon the next backup of a project has its turn in the night after the one before. */
const periodMs = 60_000;

/** Begins the backups of each night until the leadership ends. */
export const leadNightlyBackups = ({
  clock,
  leadership: { signal },
  heardBy,
  ...deps
}: NightlyDeps & {
  clock: Clock;
  leadership: Pick<Leadership, "signal">;
  /** Who hears of the rounds. */
  heardBy: (loop: string) => Pick<LoopOptions, "onError" | "onRound">;
}): Promise<void> =>
  runLoop({ clock, signal, wake: createWake(clock), periodMs, ...heardBy("nightly backups") }, async () => {
    const count = await beginNightlyBackups(deps);
    if (count > 0) deps.log.info({ count }, "scheduled backups are begun");
  });

/**
 * Begins the backups that are due: once per night and channel, whoever asks and how often, also long after the night when control
 * was down in it. A project's wait for one another. Returns how many were begun.
 */
export async function beginNightlyBackups({ rows, random, log }: NightlyDeps): Promise<number> {
  let begun = 0;
  for (const due of await rows.due()) {
    try {
      const step = await rows.take(due, random.uuid());
      if (step?.do === "begin") begun += 1;
      if (step?.do === "leaveOut") log.warn({ ...due, why: step.problem }, "a scheduled backup was left out");
    } catch (error) {
      // The others have their turn all the same, and this one in the next round.
      log.warn({ err: error, ...due }, "a scheduled backup could not be begun");
    }
  }
  return begun;
}
