/** On whose behalf, and until when, a piece of work waits for its turn. */
export interface Turn {
  /** Pieces of one key share `perKey`. */
  key?: string;
  /** Leaves the queue when it aborts, with its reason. Work that has begun is not told. */
  signal?: AbortSignal;
}

/** Does `work` when there is room for it. Throws `LimiterFull` when too many wait already. */
export type Limiter = <T>(work: () => Promise<T>, turn?: Turn) => Promise<T>;

export interface Bounds {
  total?: number;
  perKey?: number;
}

/** As many wait as may. */
export class LimiterFull extends Error {
  override readonly name = "LimiterFull";
}

interface Waiting {
  key: string;
  enter(): void;
}

/**
 * At most `total` pieces of work at once, and at most `perKey` of one key, so that one tenant cannot take all the room, by
 * slow work or by much of it. Of those that wait, those of the key with the least at work come first, in their order. A piece
 * that fails gives its place on like any other. `waiters` bounds how many wait; by default nothing does.
 *
 * One after another is `{ total: 1 }`, one after another per key `{ perKey: 1 }`.
 */
export function createLimiter({ total, perKey }: Bounds, waiters: Bounds = {}): Limiter {
  const totalMax = total ?? Number.POSITIVE_INFINITY;
  const perKeyMax = perKey ?? Number.POSITIVE_INFINITY;
  const running = new Map<string, number>();
  const waiting: Waiting[] = [];
  let taken = 0;

  const atWork = (key: string): number => running.get(key) ?? 0;
  const hasRoom = (key: string): boolean => taken < totalMax && atWork(key) < perKeyMax;
  const mayWait = (key: string): boolean =>
    waiting.length < (waiters.total ?? Number.POSITIVE_INFINITY) &&
    (waiters.perKey === undefined || waiting.filter((each) => each.key === key).length < waiters.perKey);

  const take = (key: string): void => {
    taken += 1;
    running.set(key, atWork(key) + 1);
  };
  const give = (key: string): void => {
    taken -= 1;
    const left = (running.get(key) ?? 1) - 1;
    if (left === 0) running.delete(key);
    else running.set(key, left);
    const [first, ...others] = waiting.filter((each) => hasRoom(each.key));
    if (first === undefined) return;
    const next = others.reduce((least, each) => (atWork(each.key) < atWork(least.key) ? each : least), first);
    waiting.splice(waiting.indexOf(next), 1);
    next.enter();
  };

  const waitFor = (key: string, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      const leave = (): void => {
        waiting.splice(waiting.indexOf(place), 1);
        reject(signal?.reason);
      };
      const place: Waiting = {
        key,
        enter() {
          signal?.removeEventListener("abort", leave);
          take(key);
          resolve();
        },
      };
      signal?.addEventListener("abort", leave, { once: true });
      waiting.push(place);
    });

  return async (work, { key = "", signal } = {}) => {
    signal?.throwIfAborted();
    if (hasRoom(key)) take(key);
    else if (mayWait(key)) await waitFor(key, signal);
    else throw new LimiterFull("too many wait");
    try {
      return await work();
    } finally {
      give(key);
    }
  };
}
