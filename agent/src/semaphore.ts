/** At most `size` pieces of work at once; the others wait in order and leave the queue when their signal aborts. */
export type Semaphore = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

export function createSemaphore(size: number): Semaphore {
  let free = size;
  const waiting: (() => void)[] = [];

  const acquire = (signal: AbortSignal): Promise<void> => {
    if (free > 0) {
      free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        waiting.splice(waiting.indexOf(enter), 1);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      waiting.push(enter);
    });
  };

  return async (signal, work) => {
    signal.throwIfAborted();
    await acquire(signal);
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}
