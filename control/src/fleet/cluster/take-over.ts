import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { Leadership } from "../../stores/etcd/index.ts";

export interface TakeOverDeps {
  clock: Clock;
  random: Random;
  /** See `raiseFence`. */
  raise: (epoch: bigint) => Promise<void>;
  log: Log;
}

const backOff = { firstMs: 100, maxMs: 5_000 };

/** Ends what earlier leaders may still commit. False when the leadership ended before that was done. */
export async function takeOver(
  { clock, random, raise, log }: TakeOverDeps,
  { epoch, signal }: Pick<Leadership, "epoch" | "signal">,
): Promise<boolean> {
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      await raise(epoch);
      return true;
    } catch (error) {
      log.warn({ err: error }, "the leader could not take over in Postgres yet");
      await pause(clock, backOffMs(failures, backOff, random.next()), signal);
    }
  }
  return false;
}
