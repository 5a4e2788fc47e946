/**
 * Does `work` when there is room for it; `key` says on whose behalf. Leaves the queue when `signal` aborts. Throws
 * `NoTurn` when too many wait already.
 */
export type InTurn = <T>(key: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

export interface Bounds {
  total: number;
  perKey: number;
}

/** As many wait as may. */
export class NoTurn extends Error {
  override readonly name = "NoTurn";
}

/**
 * At most `total` pieces of work at once, and at most `perKey` of one key, so that nobody takes all the room, by slow
 * registries or by many requests. Those that wait come in their order, except past one whose key has no room; `waiters`
 * bounds how many they are, by default nothing does.
 */
export function createTurns({ total, perKey }: Bounds, waiters?: Bounds): InTurn {
  const running = new Map<string, number>();
  const waiting: { key: string; enter: () => void }[] = [];
  let taken = 0;

  const hasRoom = (key: string) => taken < total && (running.get(key) ?? 0) < perKey;
  const take = (key: string): void => {
    taken += 1;
    running.set(key, (running.get(key) ?? 0) + 1);
  };
  const give = (key: string): void => {
    taken -= 1;
    const left = (running.get(key) ?? 1) - 1;
    if (left === 0) running.delete(key);
    else running.set(key, left);
    const at = waiting.findIndex((each) => hasRoom(each.key));
    const [next] = at === -1 ? [] : waiting.splice(at, 1);
    next?.enter();
  };

  const mayWait = (key: string): boolean =>
    waiters === undefined ||
    (waiting.length < waiters.total && waiting.filter((each) => each.key === key).length < waiters.perKey);

  const enter = (key: string, signal: AbortSignal): Promise<void> => {
    if (hasRoom(key)) {
      take(key);
      return Promise.resolve();
    }
    if (!mayWait(key)) return Promise.reject(new NoTurn("too many wait"));
    return new Promise((resolve, reject) => {
      const turn = {
        key,
        enter: () => {
          signal.removeEventListener("abort", leave);
          take(key);
          resolve();
        },
      };
      const leave = (): void => {
        waiting.splice(waiting.indexOf(turn), 1);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      waiting.push(turn);
    });
  };

  return async (key, signal, work) => {
    signal.throwIfAborted();
    await enter(key, signal);
    try {
      return await work();
    } finally {
      give(key);
    }
  };
}
