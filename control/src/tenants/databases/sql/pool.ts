import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { type Child, ChildLost, startChild } from "./child.ts";

/** After so many requests another child takes over: whatever one has kept by mistake is gone with it. */
const usesMax = 64;
/** A child that has answered is idle at once; one that is being started may wait for a busy machine. */
const tidyMs = 2_000;
const startMs = 30_000;

export interface Pool extends AsyncDisposable {
  /** Does `work` with a child that is idle. Once asked it is used again only if `work` succeeds. */
  withChild<T>(work: (child: Child) => Promise<T>): Promise<T>;
}

/**
 * Children that wait for work. One is always started ahead, so that whoever asks does not wait for a process to begin. How many
 * are in use at once is bound by whoever uses it.
 *
 * @param spareMax how many wait at most
 */
export function createPool(clock: Clock, spareMax: number): Pool {
  const all = new Set<Child>();
  let spare: Child[] = [];
  let isClosed = false;

  const start = (): Child => {
    const child = startChild();
    all.add(child);
    return child;
  };
  const drop = async (child: Child): Promise<void> => {
    await child.kill();
    all.delete(child);
  };
  const keepOneAhead = (): void => {
    if (!isClosed && spare.length === 0) spare.push(start());
  };
  /** One that may be used at once, if there is any: others are being started still. */
  const take = (): Child => {
    spare = spare.filter(({ isAlive }) => isAlive);
    const child = spare.find(({ isIdle }) => isIdle) ?? spare[0] ?? start();
    spare = spare.filter((each) => each !== child);
    keepOneAhead();
    return child;
  };
  /** Not waited for: whoever asked has the answer already. */
  const giveBack = async (child: Child): Promise<void> => {
    const isIdle = await within(clock, tidyMs, child.idle(), () => false);
    if (isIdle && !isClosed && child.uses < usesMax && spare.length < spareMax) spare.push(child);
    else await drop(child);
  };

  keepOneAhead();
  return {
    async withChild(work) {
      const child = take();
      try {
        const isIdle = await within(clock, startMs, child.idle(), () => false);
        if (!isIdle) throw new ChildLost("a child did not start", { isUnheard: true });
        const result = await work(child);
        void giveBack(child);
        return result;
      } catch (error) {
        // One that was never asked is as good as before.
        void (child.isIdle ? giveBack(child) : drop(child));
        throw error;
      }
    },
    async [Symbol.asyncDispose]() {
      isClosed = true;
      await Promise.all([...all].map(drop));
    },
  };
}
