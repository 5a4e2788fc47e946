import type { Clock } from "./clock.ts";

export interface BatchOptions<R> {
  clock: Clock;
  /** Answers each question, in their order; null for what is not there. Must end by itself. */
  ask(questions: readonly string[]): Promise<readonly (R | null)[]>;
  /** Questions asked at once. */
  sizeMax: number;
  /** Different questions that may wait; one more is refused with `Crowded`. */
  waitingMax: number;
}

/** Too many wait already. */
export class Crowded extends Error {
  override readonly name = "Crowded";
}

type Waiting<R> = PromiseWithResolvers<R | null>;

/**
 * Asks one at a time what many want to know: whatever comes up while a batch is under way goes out together in the
 * next. Nothing is remembered: a question is asked after it came up, never answered from an earlier batch.
 */
export function createBatch<R>(options: BatchOptions<R>): (question: string) => Promise<R | null> {
  const { clock, ask, sizeMax, waitingMax } = options;
  const waiting = new Map<string, Waiting<R>>();
  let busy = false;

  async function run(): Promise<void> {
    while (waiting.size > 0) {
      const batch = [...waiting].slice(0, sizeMax);
      for (const [question] of batch) waiting.delete(question);
      try {
        const answers = await ask(batch.map(([question]) => question));
        for (const [at, [, { resolve }]] of batch.entries()) resolve(answers[at] ?? null);
      } catch (error) {
        for (const [, { reject }] of batch) reject(error);
      }
    }
    busy = false;
  }

  return (question) => {
    const already = waiting.get(question);
    if (already !== undefined) return already.promise;
    if (waiting.size >= waitingMax) return Promise.reject(new Crowded("too many questions wait"));
    const mine: Waiting<R> = Promise.withResolvers();
    waiting.set(question, mine);
    if (!busy) {
      busy = true;
      // What arrived in the same turn of the event loop goes along.
      clock.soon(() => void run());
    }
    return mine.promise;
  };
}
