import type { Clock } from "./clock.ts";

/**
 * What `work` gives, or what `late` gives (or throws) when it takes longer than `ms`. The work itself goes on: what it
 * does later is nobody's, and its failure is swallowed. Work that can be called off gets `clock.abortAfter(ms)` instead.
 */
export async function within<T, L = never>(clock: Clock, ms: number, work: Promise<T>, late: () => L): Promise<T | L> {
  const { promise, resolve, reject } = Promise.withResolvers<L>();
  using _ = clock.after(ms, () => {
    try {
      resolve(late());
    } catch (error) {
      reject(error);
    }
  });
  work.catch(() => {});
  return await Promise.race([work, promise]);
}
