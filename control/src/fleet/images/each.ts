/**
 * Does `work` for every item, at most `size` at a time. The first failure aborts what is under way, and is thrown
 * when all of it has stopped.
 */
export async function eachOf<T>(
  items: readonly T[],
  size: number,
  signal: AbortSignal,
  work: (item: T, stop: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) {
      stop.throwIfAborted();
      await work(item, stop);
    }
  };
  const workers = Array.from({ length: Math.min(size, items.length) }, () =>
    worker().catch((error: unknown) => failed.abort(error)),
  );
  await Promise.all(workers);
  signal.throwIfAborted();
  // The first abort has the reason that counts.
  failed.signal.throwIfAborted();
}
