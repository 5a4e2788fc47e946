/** Does `work` when there is room for it; `key` says on whose behalf. Leaves the queue when `signal` aborts. */
export type InTurn = <T>(key: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/**
 * At most `total` pieces of work at once, and at most `perKey` of one key, so that one account's slow registries
 * cannot take all the room. Those that wait come in their order, except past one whose key has no room.
 */
export function createTurns({ total, perKey }: { total: number; perKey: number }): InTurn {
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

  const enter = (key: string, signal: AbortSignal): Promise<void> => {
    if (hasRoom(key)) {
      take(key);
      return Promise.resolve();
    }
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
