/** Runs what it is given one at a time per key, in the order of the calls. */
export type Mutex = <T>(key: string, work: () => Promise<T>) => Promise<T>;

export function createMutex(): Mutex {
  const tails = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const before = tails.get(key);
    const turn = (async () => {
      // The one before reports its failure to its own caller.
      await before?.catch(() => {});
      return work();
    })();
    tails.set(key, turn);
    try {
      return await turn;
    } finally {
      if (tails.get(key) === turn) tails.delete(key);
    }
  };
}
